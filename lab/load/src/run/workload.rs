//! From options to scripts, with a probe before the run and an audit after it.

use super::{Failure, PROBE, now};
use crate::arrive::ArrivalProcess;
use crate::drive::{Driver, Parts, Settings, enough_files};
use crate::parse::{Target, Usage};
use crate::probe;
use crate::report::Check;
use crate::script::{
    Echo, FlowCounters, FlowScript, Flows, Http, Http2, HttpOptions, Line, LineOptions,
    ReceiptFile, Receipts, SHOW, Script, Stock, StockOptions,
};
use crate::tls::Layers;
use crate::work::{Think, Work};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The requests to send to the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// The commands of a market.
    Stock(StockOptions),
    /// Numbered orders of a market; their receipts go into the file.
    Receipts(StockOptions, PathBuf),
    /// Requests of HTTP, in the version of the target.
    Http(HttpOptions),
    /// Flows of steps of HTTP/1.1, and the seed of their draws.
    Flow(Arc<Flows>, u64),
    /// Packets to be echoed.
    Echo,
    /// Constant requests.
    Line(LineOptions),
}

/// Facts learned about a server before the run.
pub(super) struct Prepared {
    /// The rows of a market; empty elsewhere.
    rows: Vec<u8>,
    receipts: Option<ReceiptFile>,
    /// The rows and users of flows.
    flow: FlowCounters,
    /// Encryption, if there is any.
    pub(super) tls: Option<Layers>,
    /// The scheme of requests of HTTP/2; `None`: HTTP/1.1.
    http2: Option<&'static str>,
}

impl Prepared {
    /// Requests the facts that scripts need; fails if there is no server.
    pub(super) fn ask(target: &Target, workload: &Workload) -> Result<Self, Failure> {
        let tls = Layers::of(target)?;
        let http2 = target.http2.then_some(if tls.is_some() { "https" } else { "http" });
        // Numbered requests survive the loss of a server; so does this one.
        let until = match workload {
            Workload::Receipts(..) => now() + PROBE,
            _ => now(),
        };
        let ask = |request: &[u8], whole: &dyn Fn(&[u8]) -> bool| loop {
            match probe::ask(target, tls.as_ref(), request, whole, PROBE) {
                Err(_) if now() < until => std::thread::sleep(AUDIT_PAUSE),
                Err(error) => {
                    let error = naming(target, error);
                    let (target, doing) = (target.to_string(), "probing before the run");
                    return Err(Failure::Probe { target, doing, error });
                }
                Ok(reply) => return Ok(reply),
            }
        };
        let (Workload::Stock(options) | Workload::Receipts(options, _)) = workload else {
            ask(b"", &|_| true)?;
            let flow = match workload {
                Workload::Flow(flows, _) => flows.counters(),
                _ => FlowCounters::default(),
            };
            return Ok(Self { rows: Vec::new(), receipts: None, flow, tls, http2 });
        };
        let text = |reply: &[u8]| Stock::show_text(options.framing, reply).map(<[u8]>::to_vec);
        let reply = ask(SHOW, &|reply| text(reply).is_some())?;
        let receipts = match workload {
            Workload::Receipts(_, path) => Some(ReceiptFile::new(create(path)?)),
            _ => None,
        };
        let (rows, flow) = (text(&reply).unwrap_or_default(), FlowCounters::default());
        Ok(Self { rows, receipts, flow, tls, http2 })
    }

    /// A script for the thread numbered `part`; each draws different requests.
    pub(super) fn script(
        &self,
        workload: &Workload,
        settings: &Settings,
        part: usize,
    ) -> Result<Box<dyn Script>, Failure> {
        let connections = settings.connections;
        // A script keeps memory for each connection, so an impossible number must not reach it.
        if !settings.until_failure {
            enough_files(connections)
                .map_err(|error| Failure::Machinery { doing: "making a generator", error })?;
        }
        let seed = |seed: u64| seed.wrapping_add((part as u64) << 40);
        Ok(match workload {
            Workload::Line(options) => Box::new(Line::new(options.clone(), connections)),
            Workload::Echo => Box::new(Echo::new(connections)),
            Workload::Http(options) => {
                let options = HttpOptions { seed: seed(options.seed), ..options.clone() };
                let http = Http::new(options, connections)?;
                match self.http2 {
                    Some(scheme) => Box::new(Http2::new(http, scheme)),
                    None => Box::new(http),
                }
            }
            Workload::Flow(flows, own) => {
                let (flows, counters) = (Arc::clone(flows), Arc::clone(&self.flow));
                let is_tls = self.tls.is_some();
                Box::new(FlowScript::new(flows, counters, connections, is_tls, seed(*own)))
            }
            Workload::Stock(options) | Workload::Receipts(options, _) => {
                let options = StockOptions { seed: seed(options.seed), ..options.clone() };
                let (rows, receipts) = (&self.rows, self.receipts.clone());
                match receipts {
                    Some(file) => Box::new(Receipts::new(options, rows, connections, file)?),
                    None => Box::new(Stock::new(options, rows, connections)?),
                }
            }
        })
    }
}

/// Names the addresses that were tried, if the name of the target has several, or the path.
fn naming(target: &Target, error: io::Error) -> io::Error {
    if let Some(path) = target.unix.as_ref().filter(|_| error.get_ref().is_none()) {
        return io::Error::new(error.kind(), format!("{error} at {}", path.display()));
    }
    if target.spares.is_empty() || error.get_ref().is_some() {
        return error;
    }
    let all: Vec<String> = target.spares.iter().map(ToString::to_string).collect();
    let words = format!("{error} at {} and {}", target.address, all.join(" and "));
    io::Error::new(error.kind(), words)
}

fn create(path: &Path) -> Result<File, Failure> {
    let bad = |error| Usage(format!("cannot write {}: {error}", path.display()));
    File::create(path).map_err(|error| Failure::Usage(bad(error)))
}

/// Makes the script for a server; a market is asked for its rows first.
pub(crate) fn script(
    target: &Target,
    workload: &Workload,
    settings: &Settings,
) -> Result<Box<dyn Script>, Failure> {
    Prepared::ask(target, workload)?.script(workload, settings, 0)
}

/// Makes the generator of a closed loop.
pub(crate) fn drive(
    target: &Target,
    settings: Settings,
    depth: u32,
    script: Box<dyn Script>,
) -> Result<Driver, Failure> {
    let (think, rounds) = (Think::None, u64::MAX);
    Driver::new(Parts {
        addresses: target.addresses(),
        unix: target.unix.clone(),
        sources: Vec::new(),
        tls: Layers::of(target)?,
        settings,
        arrive: ArrivalProcess::users(settings.connections as u64, None),
        presence: None,
        work: Work::Own { rounds, depth, think },
        script,
        seed: 0,
        scheduled: false,
    })
    .map_err(|error| Failure::Machinery { doing: "making a generator", error })
}

/// Audits that an overloaded server may refuse, and the pause before the next: it recovers within
/// two seconds.
const AUDITS_MAX: usize = 20;
const AUDIT_PAUSE: Duration = Duration::from_millis(100);

/// Sends the script's final request on a fresh connection and returns its verdict; `others` are the
/// totals of further threads, for which `script` judges too.
pub(super) fn audit(target: &Target, script: &dyn Script, others: &[Vec<u64>]) -> Check {
    if script.audit().is_empty() {
        return script.verdict(b"", others);
    }
    let whole = |reply: &[u8]| script.audit_is_whole(reply);
    let ask = || {
        let tls = Layers::of(target).map_err(io::Error::other)?;
        probe::ask(target, tls.as_ref(), script.audit(), whole, PROBE)
    };
    let mut found = ask();
    for _ in 0..AUDITS_MAX {
        if !found.as_ref().is_ok_and(|reply| script.audit_is_refused(reply)) {
            break;
        }
        std::thread::sleep(AUDIT_PAUSE);
        found = ask();
    }
    match found {
        Ok(reply) => script.verdict(&reply, others),
        Err(e) => Check {
            kind: "conservation".to_owned(),
            ok: false,
            detail: format!("no answer to the audit after the run: {e}"),
        },
    }
}
