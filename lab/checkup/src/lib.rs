//! A check-up of any server: what it is, what a request costs, where its knee is, who suffers next
//! to a slow client, what breaks it.
//!
//! `trials` is the table: each trial is a row with a name, a need and an act. `stand` is their
//! place: the server, the protocol, and healthy clients whose waiting is the measure. `life` starts
//! a server, starts it again on its port, and leaves nothing behind; `client` is one connection, of
//! a check-up or of a grade; `acts` has the other pieces that both share; `http2` has the words of
//! a client in HTTP/2; `speech` holds the words of a protocol; `remedy` knows directives of common
//! servers. The trials are made on a thread, so that the time limit holds whatever a server does.

mod acts;
mod client;
mod http2;
mod life;
mod remedy;
mod speech;
mod stand;
mod trials;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use document::{CHECKUP_SCHEMA, Checkup, CheckupRow};
use lab::plan::Arm;
use load::Slo;

pub use acts::{again, alongside};
pub use client::TrialClient;
pub use trials::names;

use speech::Speech;
use stand::Stand;

/// The time after the limit in which a trial may still end by itself.
const GRACE: Duration = Duration::from_secs(3);
/// The interval between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// The server that is checked.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The target as given.
    pub text: String,
    /// The command that starts it; without one it runs already.
    pub arm: Option<Arm>,
    /// Where it runs already.
    pub address: Option<std::net::SocketAddr>,
    /// Its process, if that can be seen.
    pub pid: Option<u32>,
    /// How to ask, `SCHEME://{address}/PATH`; detected without.
    pub url: Option<String>,
    /// The request of a protocol of lines.
    pub request: Option<String>,
    /// HTTP/2 is spoken with a server that speaks HTTP/1.1 too.
    pub http2: bool,
}

/// The protocol of a server of TLS or HTTP/2, found out by asking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// HTTP/1.1, or nothing that is known.
    Http1,
    /// HTTP/2 alone.
    Http2,
    /// gRPC alone: pages are refused, and calls get a status.
    Grpc,
}

/// Asks the server at `address`, over TLS if it speaks that.
///
/// # Errors
/// The request, and the bytes that came back in place of a reply.
pub fn spoken(address: std::net::SocketAddr) -> Result<Spoken, String> {
    let speech = Speech::of(&Subject::default(), address)?;
    let is_grpc = speech.target.as_ref().is_some_and(|target| target.is_grpc);
    Ok(match speech.kind {
        speech::Kind::Http2 if is_grpc => Spoken::Grpc,
        speech::Kind::Http2 => Spoken::Http2,
        _ => Spoken::Http1,
    })
}

/// The extent of a check-up.
#[derive(Clone, Debug)]
pub struct CheckupOptions {
    /// Shorter windows and searches.
    pub is_quick: bool,
    /// Only these trials; all without.
    pub only: Vec<String>,
    /// The limit of the whole check-up.
    pub limit: Duration,
    /// The limit of a start.
    pub boot: Duration,
    /// The objective of the knee.
    pub slo: Slo,
    /// A folder for the server's files and output.
    pub room: PathBuf,
    /// Further words of the command that repeats a trial.
    pub repeat: Vec<String>,
}

/// Reports of the thread that makes the trials.
enum Report {
    /// The server is up; `planned` are the rows of all trials, not made yet.
    Ready {
        protocol: String,
        program: String,
        planned: Vec<CheckupRow>,
    },
    Row(CheckupRow),
    Broken(String),
}

/// Checks a server. `shown` sees each row when its trial is done. Stops early if `stop` is set.
///
/// # Errors
/// A server that cannot be started or reached, or a name of a trial that is unknown.
pub fn checkup(
    subject: &Subject,
    options: &CheckupOptions,
    stop: &Arc<AtomicBool>,
    shown: &mut dyn FnMut(&CheckupRow),
) -> Result<Checkup, String> {
    let begun = Instant::now();
    let mut checkup = Checkup {
        schema: CHECKUP_SCHEMA.to_owned(),
        target: subject.text.clone(),
        date: lab::machine::date_now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine(),
        ..Checkup::default()
    };
    let end = begun + options.limit;
    let over = Arc::new(AtomicBool::new(false));
    let (reports, incoming) = mpsc::channel();
    let work = {
        let (subject, options, over) = (subject.clone(), options.clone(), Arc::clone(&over));
        move || attend(&subject, &options, end, &over, &reports)
    };
    let doctor = thread::spawn(work);
    let (mut has_ended, mut open) = (false, Vec::new());
    loop {
        if stop.load(Ordering::Relaxed) {
            over.store(true, Ordering::Relaxed);
            checkup.interrupted = true;
        }
        let is_late = Instant::now() > end + GRACE;
        match incoming.recv_timeout(LOOK) {
            Ok(Report::Ready { protocol, program, planned }) => {
                (checkup.protocol, checkup.program) = (protocol, program);
                open = planned;
            }
            Ok(Report::Row(row)) => {
                shown(&row);
                checkup.rows.push(row);
            }
            Ok(Report::Broken(why)) => return Err(why),
            Err(RecvTimeoutError::Disconnected) => break has_ended = true,
            Err(RecvTimeoutError::Timeout) if is_late => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if is_late {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    if has_ended && let Err(panic) = doctor.join() {
        std::panic::resume_unwind(panic);
    }
    life::leave_nothing(options);
    let why = if checkup.interrupted { "the check-up was stopped" } else { trials::LATE };
    let made = std::mem::take(&mut checkup.rows);
    open.retain(|row| made.iter().all(|it| it.name != row.name));
    open.iter_mut().for_each(|row| row.reason = why.to_owned());
    checkup.rows = [made, open].concat();
    trials::ordered(&mut checkup.rows);
    checkup.seconds = begun.elapsed().as_secs_f64();
    Ok(checkup)
}

/// Makes the trials one after the other.
fn attend(
    subject: &Subject,
    options: &CheckupOptions,
    end: Instant,
    over: &Arc<AtomicBool>,
    reports: &mpsc::Sender<Report>,
) {
    // A report that nobody waits for any more is lost with reason.
    let tell = |report| drop(reports.send(report));
    let mut stand = match Stand::begin(subject, options, end, over) {
        Ok(stand) => stand,
        Err(why) => return tell(Report::Broken(why)),
    };
    let chosen = trials::chosen(&options.only, &stand.speech);
    let (protocol, program) = (stand.speech.name.clone(), stand.program());
    let planned = chosen.iter().map(|trial| trials::planned(trial, &stand)).collect();
    tell(Report::Ready { protocol, program, planned });
    for trial in chosen {
        if over.load(Ordering::Relaxed) {
            return;
        }
        tell(Report::Row(trials::attempt(&trial, &mut stand)));
    }
}

fn machine() -> String {
    let machine = meter::Machine::identify().unwrap_or_default();
    format!("{}, {} cores, Linux {}", machine.cpu, machine.cores, machine.kernel)
}
