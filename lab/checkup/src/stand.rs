//! The place of the trials: the server, its protocol, and healthy clients whose waiting is the
//! measure of every disturbance.
//!
//! Healthy clients are two users of the load generator who pause 10 ms between requests. They
//! connect while the disturbance is on, as a new client of a real server would. A user without a
//! reply within two seconds is starved. `calm` is their 99th percentile without a disturbance.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use load::drive::Settings;
use load::model::Model;
use load::run::{Hooks, Watched, Window, run_with};
use load::work::Think;
use load::{Plan, Report};
use meter::{Memory, TreeCost};

use crate::client::TrialClient;
use crate::life::Life;
use crate::speech::{Kind, Speech};
use crate::{CheckupOptions, Subject};

/// A client that waits longer than this for a reply is starved.
pub(crate) const STARVED: Duration = Duration::from_secs(2);
/// The time in which a server recovers from a trial.
const RECOVERY: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(10);
const USERS: usize = 2;

pub(crate) struct Stand {
    pub(crate) life: Life,
    pub(crate) speech: Speech,
    pub(crate) options: CheckupOptions,
    /// The target as it was given.
    pub(crate) text: String,
    /// The highest rate that keeps the objective, once it is known.
    pub(crate) knee: Option<Result<f64, String>>,
    /// Why no further trial is possible.
    pub(crate) gone: Option<String>,
    calm: Option<Health>,
    end: Instant,
    over: Arc<AtomicBool>,
}

/// The waiting of healthy clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    pub(crate) p99_ns: u64,
    pub(crate) asked: u64,
    /// Without a right reply in time.
    pub(crate) starved: u64,
    pub(crate) example: String,
}

impl Stand {
    pub(crate) fn begin(
        subject: &Subject,
        options: &CheckupOptions,
        end: Instant,
        over: &Arc<AtomicBool>,
    ) -> Result<Stand, String> {
        let life = Life::begin(subject, options)?;
        let speech = Speech::of(subject, life.at)?;
        Ok(Stand {
            life,
            speech,
            options: options.clone(),
            text: subject.text.clone(),
            knee: None,
            gone: None,
            calm: None,
            end,
            over: Arc::clone(over),
        })
    }

    /// The name by which the server calls itself, or that of its program.
    pub(crate) fn program(&self) -> String {
        let named = crate::client::field(&self.speech.first, "server").unwrap_or_default();
        let pid = self.life.pid().unwrap_or(0);
        let own = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if named.is_empty() { own().trim().to_owned() } else { named.to_owned() }
    }

    /// The time that is left for trials.
    pub(crate) fn left(&self) -> Duration {
        match self.over.load(Ordering::Relaxed) {
            true => Duration::ZERO,
            false => self.end.saturating_duration_since(Instant::now()),
        }
    }

    /// `whole` seconds, or a part of them in a quick check-up.
    pub(crate) fn span(&self, whole: f64) -> Duration {
        Duration::from_secs_f64(if self.options.is_quick { whole / 2.5 } else { whole })
    }

    pub(crate) fn connect(&self) -> io::Result<TrialClient> {
        TrialClient::open(&self.speech, self.life.at, STARVED)
    }

    /// A connection on which nothing was said.
    pub(crate) fn dial(&self) -> io::Result<TrialClient> {
        TrialClient::dial(&self.speech, self.life.at, STARVED)
    }

    /// A plain connection, before any handshake of layers.
    pub(crate) fn socket(&self) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&self.life.at, STARVED)
    }

    /// A load of the server, to be adapted.
    pub(crate) fn plan(&self, connections: usize, window: Duration) -> Option<Plan> {
        let target = self.speech.target.clone()?;
        let settings = Settings {
            connections,
            timeout: STARVED,
            drain: STARVED,
            requests_per_connection: (!self.speech.stays).then_some(1),
            ..Settings::default()
        };
        let watch = self.life.pid().map(|pid| Watched { pid, group: None, place: None });
        Some(Plan {
            settings,
            window: Window::For(window),
            warmup: Duration::from_millis(100),
            watch,
            ..Plan::new(target, self.speech.workload.clone())
        })
    }

    pub(crate) fn load(&self, plan: &Plan) -> Result<Report, String> {
        let hooks = Hooks { stop: Some(Arc::clone(&self.over)), ..Hooks::default() };
        run_with(plan, &hooks).map_err(|why| why.to_string())
    }

    /// The waiting of healthy clients now.
    pub(crate) fn health(&self) -> Result<Health, String> {
        let mut plan = self.plan(USERS, self.span(1.5)).ok_or("no protocol is known")?;
        plan.model = Model::Closed { depth: 1, think: Think::Fixed(PAUSE), ramp: None };
        plan.watch = None;
        plan.warmup = Duration::ZERO;
        let report = match self.load(&plan) {
            Ok(report) => report,
            Err(example) => {
                let (asked, starved) = (USERS as u64, USERS as u64);
                return Ok(Health { p99_ns: 0, asked, starved, example });
            }
        };
        let starved = report.failed + report.censored;
        let example = report.errors.list.first().map(|it| it.example.clone()).unwrap_or_default();
        let p99 = report.percentiles.iter().find(|it| it.percent == 99.0);
        let p99_ns = p99.map_or(report.response.max_ns, |it| it.ns);
        Ok(Health { p99_ns, asked: report.service.count + starved, starved, example })
    }

    /// The waiting of healthy clients without a disturbance.
    pub(crate) fn calm(&mut self) -> Result<Health, String> {
        if self.calm.is_none() {
            let health = self.health()?;
            if health.starved > 0 {
                return Err(format!(
                    "healthy clients alone get no right replies: {}",
                    health.example
                ));
            }
            self.calm = Some(health);
        }
        Ok(self.calm.clone().unwrap_or_default())
    }

    /// Whether a new client is served; waits a moment for a server that recovers.
    pub(crate) fn is_well(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if let Some(how) = self.life.ended() {
                return Err(format!("the server ended: {how}"));
            }
            let asked = match self.speech.kind {
                Kind::Plain => self.connect().map(drop),
                _ => self.connect().and_then(|mut it| it.ask(&self.speech, STARVED)).map(drop),
            };
            match asked {
                Ok(()) => return Ok(()),
                Err(why) if begun.elapsed() > RECOVERY => {
                    let time = stats::words::span(begun.elapsed());
                    return Err(format!("a new client gets no reply for {time} afterwards: {why}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Open descriptors and memory (kB) of all its processes.
    pub(crate) fn holdings(&self) -> Option<(u64, u64)> {
        let count = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count);
        let pids = self.life.pids();
        let open: usize =
            pids.iter().map(|pid| count(*pid)).collect::<io::Result<Vec<_>>>().ok()?.iter().sum();
        let memory = Memory::read(*pids.first()?).ok()?;
        Some((open as u64, memory.own_kb.unwrap_or(memory.rss_kb)))
    }

    /// The time for which its threads run or wait to go on, as a share of a time: a busy machine
    /// preempts a thread that spins. One that wakes and waits for a core has not begun, and
    /// thousands of those wait longer than they run.
    fn busy(&self, span: Duration) -> Option<f64> {
        let pid = self.life.pid()?;
        let before = TreeCost::read(pid).ok()?;
        let begun = Instant::now();
        std::thread::sleep(span);
        let cost = TreeCost::read(pid).ok()?.since(&before);
        let preempted = cost.involuntary as f64 / cost.switches().max(1) as f64;
        let wanted_ns = cost.cpu_ns as f64 + cost.delay_ns as f64 * preempted;
        Some(wanted_ns / begun.elapsed().as_nanos() as f64)
    }

    /// The same once it is at most `most`, or in the last of some looks: work for connections that
    /// have just come ends, and a spin does not.
    pub(crate) fn settled(&self, looks: usize, span: Duration, most: f64) -> Option<f64> {
        let mut share = None;
        (0..looks).find(|_| {
            share = self.busy(span);
            share.is_none_or(|share| share <= most)
        });
        share
    }
}

/// Connections that are reset when they are closed, so that no port waits (TIME_WAIT).
pub(crate) fn resets(client: &TrialClient) {
    // A connection that is gone needs no reset.
    let _ = sys::socket::set_linger_reset(client.stream.socket.as_fd());
}
