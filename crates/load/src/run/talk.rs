//! What is said to the server: from options to scripts, with a question before and one after.

use super::{Failure, PROBE};
use crate::arrive::Crowd;
use crate::drive::{Drive, Parts, Settings};
use crate::parse::Target;
use crate::probe;
use crate::report::Check;
use crate::script::{
    Account, Echo, Http, HttpOptions, Line, LineOptions, SHOW, Script, Stock, StockOptions,
};
use crate::work::{Think, Work};

/// What to say to the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Talk {
    /// The market's commands.
    Stock(StockOptions),
    /// Requests of HTTP/1.1.
    Http(HttpOptions),
    /// Packets that come back.
    Echo,
    /// Constant requests.
    Line(LineOptions),
}

/// What was learned of a server before the run.
pub(super) struct Prepared {
    /// The rows of a market; empty elsewhere.
    rows: Vec<u8>,
}

impl Prepared {
    /// Asks the server what scripts have to know, and whether it is there at all.
    pub(super) fn ask(target: &Target, talk: &Talk) -> Result<Self, Failure> {
        let ask = |request: &[u8], whole: &dyn Fn(&[u8]) -> bool| {
            probe::ask(target.address, request, whole, PROBE).map_err(|error| Failure::Probe {
                target: target.to_string(),
                doing: "asking before the run",
                error,
            })
        };
        let Talk::Stock(options) = talk else {
            ask(b"", &|_| true)?;
            return Ok(Self { rows: Vec::new() });
        };
        let text = |reply: &[u8]| Stock::show_text(options.framing, reply).map(<[u8]>::to_vec);
        let reply = ask(SHOW, &|reply| text(reply).is_some())?;
        Ok(Self { rows: text(&reply).unwrap_or_default() })
    }

    /// A script for the thread numbered `part`; each draws other requests.
    pub(super) fn script(
        &self,
        talk: &Talk,
        connections: usize,
        part: usize,
    ) -> Result<Box<dyn Script>, Failure> {
        let seed = |seed: u64| seed.wrapping_add((part as u64) << 40);
        Ok(match talk {
            Talk::Line(options) => Box::new(Line::new(options.clone(), connections)),
            Talk::Echo => Box::new(Echo::new(connections)),
            Talk::Http(options) => {
                let options = HttpOptions { seed: seed(options.seed), ..options.clone() };
                Box::new(Http::new(options, connections)?)
            }
            Talk::Stock(options) => {
                let options = StockOptions { seed: seed(options.seed), ..options.clone() };
                Box::new(Stock::new(options, &self.rows, connections)?)
            }
        })
    }
}

/// Makes the script for a server; a market is asked for its rows first.
pub(crate) fn script(
    target: &Target,
    talk: &Talk,
    connections: usize,
) -> Result<Box<dyn Script>, Failure> {
    Prepared::ask(target, talk)?.script(talk, connections, 0)
}

/// Makes the generator of a closed loop.
pub(crate) fn drive(
    target: &Target,
    settings: Settings,
    depth: u32,
    script: Box<dyn Script>,
) -> Result<Drive, Failure> {
    let (think, rounds) = (Think::None, u64::MAX);
    Drive::new(Parts {
        address: target.address,
        sources: Vec::new(),
        settings,
        arrive: Box::new(Crowd::at_once(settings.connections as u64)),
        work: Work::Own { rounds, depth, think },
        script,
        seed: 0,
        scheduled: false,
    })
    .map_err(|error| Failure::Machinery { doing: "making a generator", error })
}

/// Asks the script's last question on a fresh connection and takes its verdict.
pub(crate) fn audit(target: &Target, script: &dyn Script) -> Check {
    audit_all(target, script, &[])
}

/// The same for the scripts of several threads, of which `script` speaks for all.
pub(super) fn audit_all(target: &Target, script: &dyn Script, others: &[Account]) -> Check {
    if script.audit().is_empty() {
        return script.verdict(b"", others);
    }
    let whole = |reply: &[u8]| script.audit_is_whole(reply);
    match probe::ask(target.address, script.audit(), whole, PROBE) {
        Ok(reply) => script.verdict(&reply, others),
        Err(e) => Check {
            kind: "conservation".to_owned(),
            ok: false,
            detail: format!("no answer to the question after the run: {e}"),
        },
    }
}
