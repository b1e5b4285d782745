//! `roundhouse checkup TARGET`: a check-up of any server, in a page, a summary, JSON and JUnit.
//!
//! Arguments become a [`Subject`]; the trials are those of the crate `checkup`. Load goes to this
//! machine only, unless a flag says that the server is the user's.

use crate::attach;
use crate::race::ab::{address_of, assigned, is_here, is_url, running};
use anyhow::{Context, Result, anyhow, bail};
use checkup::{CheckupOptions, Subject};
use document::{Checkup, CheckupRow, Judgement};
use lab::command::split;
use lab::plan::Arm;
use lab::service::Service;
use language::{eprintln, info, tr};
use load::Slo;
use meter::machine::{LISTENS, tcp_sockets};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tools::race::{book, room};
use tools::{INTERRUPTED, MISSED, UNKNOWN, usage, write};
use wire::conf::span;

/// The limit of a whole check-up, and of a quick one.
const LIMITS: [Duration; 2] = [Duration::from_secs(175), Duration::from_secs(57)];

/// The arguments of `checkup`.
#[derive(clap::Args)]
pub struct Args {
    /// The server: a command, whose `{port}` is replaced by a free port ($PORT has it too), or the
    /// address or the URL of a server that runs
    #[arg(required_unless_present_any = ["pid", "schema"])]
    target: Option<String>,
    /// How to ask: a path of HTTP servers, or SCHEME://{address}/PATH as for `roundhouse load`
    /// [default: detected]
    #[arg(value_name = "URL")]
    how: Option<String>,
    /// A process that listens, in place of a target
    #[arg(long, conflicts_with = "target")]
    pid: Option<u32>,
    /// The request for a target line://, with escapes \r \n \t \0 \xHH
    #[arg(long, value_name = "TEXT")]
    request: Option<String>,
    /// Speak HTTP/2 with a server that speaks HTTP/1.1 too
    #[arg(long)]
    http2: bool,
    /// Take a minute in place of three
    #[arg(long)]
    quick: bool,
    /// Make only these trials
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// The objective of the knee
    #[arg(long, value_name = "OBJECTIVE", default_value = "p99 < 20ms")]
    slo: Slo,
    /// The time that the server may take to start
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "20s")]
    boot: Duration,
    /// Where the page is written
    #[arg(long, value_name = "FILE", default_value = "checkup.html")]
    page: PathBuf,
    /// Print the check-up as JSON
    #[arg(long)]
    json: bool,
    /// Write the check-up as JUnit, for a build
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Compare with an earlier check-up, a file of --json
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Exit with 99 if there is a fault, an attention, or a finding of the trial of that name; with
    /// 98 if that trial was not made
    #[arg(long, value_name = "fault|attention|NAME")]
    fail_if: Vec<String>,
    /// Load the server although it is on another machine
    #[arg(long)]
    yes_it_is_mine: bool,
    /// Print the JSON Schema of --json
    #[arg(long)]
    schema: bool,
}

/// Checks the server. Exit code 1 if it cannot be tried, 2 for wrong usage, 130 after Ctrl-C, 99
/// and 98 by `--fail-if`.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.schema {
        print!("{}", Checkup::json_schema()?);
        return Ok(ExitCode::SUCCESS);
    }
    let (subject, old) = prepared(args).map_err(usage)?;
    let stop = tools::interrupt::watch()?;
    let room = room("roundhouse-checkup")?;
    let options = CheckupOptions {
        is_quick: args.quick,
        only: args.only.clone(),
        limit: LIMITS[usize::from(args.quick)],
        boot: args.boot,
        slo: args.slo.clone(),
        room: room.path().to_owned(),
        repeat: repeat(args),
    };
    let mut number = 0;
    let mut shown = |row: &CheckupRow| {
        number += 1;
        let text = if row.evidence.is_empty() { &row.reason } else { &row.evidence };
        info!("{number}. {}: {}: {text}", row.name, row.judgement);
    };
    let checked = checkup::checkup(&subject, &options, &stop, &mut shown);
    let checked = checked.map_err(|why| anyhow!(why))?;
    conclude(args, &checked, old.as_ref())?;
    Ok(match code(args, &checked) {
        _ if stop.load(Ordering::Relaxed) => ExitCode::from(INTERRUPTED),
        _ if checked.rows.iter().all(|row| row.judgement == Judgement::NotTried) => {
            ExitCode::FAILURE
        }
        Some(code) => ExitCode::from(code),
        None => ExitCode::SUCCESS,
    })
}

/// The server and the earlier check-up, if all names are known.
fn prepared(args: &Args) -> Result<(Subject, Option<Checkup>)> {
    let names = checkup::names();
    let is_known = |name: &&String| names.contains(&name.as_str());
    let mut wanted = args
        .only
        .iter()
        .chain(args.fail_if.iter().filter(|it| !["fault", "attention"].contains(&it.as_str())));
    if let Some(name) = wanted.find(|name| !is_known(name)) {
        let all = names.join(", ");
        bail!("expected a trial ({all}), found `{name}`");
    }
    let read = |path: &PathBuf| -> Result<Checkup> {
        let text = sys::input::read_text(path, sys::input::SMALL)
            .with_context(|| path.display().to_string())?;
        serde_json::from_str(&text)
            .with_context(|| format!("{}: expected the JSON of a check-up", path.display()))
    };
    Ok((subject(args)?, args.against.as_ref().map(read).transpose()?))
}

fn subject(args: &Args) -> Result<Subject> {
    let text = match (&args.target, args.pid) {
        (Some(text), _) => text.clone(),
        (None, Some(pid)) => listens(pid)?.to_string(),
        (None, None) => bail!("expected a command, an address or a URL"),
    };
    let own_url = is_url(&text).then(|| text.clone());
    let address = match &own_url {
        Some(url) => Some(address_of(url)?),
        None => running(&text),
    };
    let how = args.how.clone().or(own_url);
    let url = match how {
        Some(path) if path.starts_with('/') => Some(format!("http://{{address}}{path}")),
        other => other,
    };
    let mut subject =
        Subject { text: text.clone(), url, request: args.request.clone(), ..Subject::default() };
    subject.http2 = args.http2;
    match address {
        Some(address) => {
            if is_here(address).is_err() && !args.yes_it_is_mine {
                bail!(
                    "expected a server on this machine, found {address}: a check-up is a load, and \
                     breaks what is weak; if the server is yours, say --yes-it-is-mine"
                );
            }
            subject.address = Some(address);
            // A process of another user cannot be seen; then its trials are not made.
            subject.pid = args.pid.or_else(|| attach::owner(address).ok());
        }
        None => {
            let (environment, command) = assigned(split(&text).map_err(|why| anyhow!(why))?);
            if command.is_empty() {
                bail!("expected a command, an address or a URL, found `{text}`");
            }
            let files = vec![book(None)?, Service::page(None)?];
            let name = "server".to_owned();
            subject.arm = Some(Arm { name, command, environment, files, ..Arm::default() });
        }
    }
    Ok(subject)
}

fn listens(pid: u32) -> Result<SocketAddr> {
    let is_its =
        |port: &u16| attach::owner(SocketAddr::from(([127, 0, 0, 1], *port))).ok() == Some(pid);
    let mut ports: Vec<u16> = tcp_sockets(LISTENS).map(|it| it.0[0]).collect();
    ports.sort_unstable();
    ports.dedup();
    ports.retain(is_its);
    match ports[..] {
        [port] => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        _ => bail!(
            "expected a process that listens on one port, found {pid} on {ports:?}; give the \
             address"
        ),
    }
}

/// The further words that repeat a trial.
fn repeat(args: &Args) -> Vec<String> {
    let mut words: Vec<String> = args.how.iter().cloned().collect();
    words.extend(args.http2.then(|| "--http2".to_owned()));
    words.extend(args.request.iter().flat_map(|text| ["--request".to_owned(), text.clone()]));
    words
}

fn conclude(args: &Args, checked: &Checkup, old: Option<&Checkup>) -> Result<()> {
    write(&args.page, pages::checkup::page(checked, old)?)?;
    if let Some(file) = &args.junit {
        write(file, pages::checkup::junit(checked))?;
    }
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(checked)?),
        false => print!("{}", pages::checkup::text(checked, old)),
    }
    info!("{:.0} s; the page is {}", checked.seconds, args.page.display());
    Ok(())
}

/// The exit code by `--fail-if`.
fn code(args: &Args, checked: &Checkup) -> Option<u8> {
    let mut unknown = false;
    for condition in &args.fail_if {
        let worst = |least| checked.rows.iter().any(|row| row.judgement >= least);
        let named = checked.rows.iter().find(|row| row.name == *condition);
        let is_met = match condition.as_str() {
            "fault" => worst(Judgement::Fault),
            "attention" => worst(Judgement::Attention),
            _ => named.is_some_and(|row| row.judgement >= Judgement::Attention),
        };
        if is_met {
            let met = tr("--fail-if is met");
            eprintln!("{met}: {condition}");
            return Some(MISSED);
        }
        unknown |= !["fault", "attention"].contains(&condition.as_str())
            && named.is_none_or(|row| row.judgement == Judgement::NotTried);
    }
    unknown.then_some(UNKNOWN)
}
