//! The table of trials, and how one of them is made.
//!
//! A trial is a row: section, name, the question, what it needs, the time that it may take, the
//! act. The cases of HTTP stand in separate tables (`trials/http.rs`, `trials/http2.rs`) and become
//! rows here. A finding that may come from noise of the machine is made again: it stands if two of
//! three tries find it. After each act a new client must be served; if none is, that is a fault of
//! this trial, and a server of ours is started again for the next.

/// Rows of cases: the name, the section, whether that says MUST, the conduct it wants, the bytes
/// that are sent, and the question.
macro_rules! cases {
    ($of:ident $($name:literal $section:literal $must:literal $want:expr, $sent:expr,
       $about:literal;)*) => {
        pub(super) const TRIALS: &[Trial] = &[$(Trial {
            section: super::PROTOCOL, name: $name, about: $about, need: Need::$of, seconds: 0.5,
            is_noisy: false,
            act: Act::$of(&Case { section: $section, is_must: $must, want: $want, sent: $sent }),
        }),*];
    };
}

mod capacity;
mod cost;
mod crowd;
mod http;
mod http2;
mod life;
mod nature;
mod tls;

use std::time::{Duration, Instant};

use document::{CheckupRow, Judgement};

use crate::acts::again;
use crate::remedy;
use crate::speech::{Kind, Speech};
use crate::stand::Stand;

/// The result of an act.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finding {
    judgement: Judgement,
    evidence: String,
    reason: String,
    measured: Vec<(&'static str, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// An address.
    Nothing,
    /// A protocol that is known.
    Words,
    /// HTTP/1.1.
    Http,
    /// HTTP/2.
    Http2,
    /// TLS.
    Tls,
    /// A process that can be seen.
    Process,
    /// Both.
    WordsAndProcess,
    /// A command, so that the server can be ended and started.
    Command,
}

/// Bytes for a server, and the conduct that a section of an RFC wants of it.
struct Case<W, S> {
    section: &'static str,
    /// Whether the section says MUST; otherwise a deviation is for attention.
    is_must: bool,
    want: W,
    sent: S,
}

#[derive(Clone, Copy)]
enum Act {
    Run(fn(&mut Stand) -> Result<Finding, String>),
    Http(&'static http::Case),
    Http2(&'static http2::Case),
}

#[derive(Clone, Copy)]
pub(crate) struct Trial {
    section: &'static str,
    name: &'static str,
    about: &'static str,
    need: Need,
    /// The usual time (s), and whether noise of the machine can be taken for a finding.
    seconds: f64,
    is_noisy: bool,
    act: Act,
}

const NATURE: &str = "What it is";
const COST: &str = "Cost";
const CAPACITY: &str = "Capacity and tail";
const ROBUST: &str = "Robustness";
const PROTOCOL: &str = "Protocol";
/// Why a trial was not made in time.
pub(crate) const LATE: &str = "the time of the check-up is over";
/// Tries of a noisy trial.
const TRIES: usize = 3;

macro_rules! trials {
    ($($section:ident $name:literal $need:ident $seconds:literal $noisy:literal $run:path,
       $about:literal;)*) => {
        const TRIALS: &[Trial] = &[$(Trial {
            section: $section, name: $name, need: Need::$need, seconds: $seconds,
            is_noisy: $noisy, act: Act::Run($run), about: $about,
        }),*];
    };
}

trials! {
    NATURE "architecture" Process 1.0 false nature::architecture,
        "processes, threads, who accepts, how they wait";
    NATURE "backlog" Nothing 1.2 true nature::backlog, "64 clients connect at once";
    NATURE "keep-alive" Words 0.2 false nature::keep_alive, "a second request on a connection";
    NATURE "nodelay" Words 1.0 true nature::nodelay, "a reply waits for no acknowledgement";
    COST "request" WordsAndProcess 2.5 false cost::request, "CPU time of a request";
    COST "new-connection" WordsAndProcess 1.5 false cost::connection, "price of a new connection";
    COST "idle-memory" WordsAndProcess 2.0 false cost::idle, "memory of an idle connection";
    CAPACITY "pauses" Words 2.0 true capacity::pauses, "one client alone, each request timed";
    CAPACITY "knee" Words 12.0 false capacity::knee, "the highest rate that keeps the objective";
    CAPACITY "tail" Words 3.0 false capacity::tail, "response times at half and .8 of the knee";
    CAPACITY "overload" Words 4.0 false capacity::overload, "twice the rate of the knee";
    ROBUST "half-requests" Words 2.0 true crowd::half, "64 clients stop in mid-request";
    ROBUST "byte-by-byte" Words 3.0 true crowd::bytes, "8 clients send a byte at a time";
    ROBUST "silent" Words 2.0 true crowd::silent, "64 clients connect and say nothing";
    ROBUST "slow-readers" Words 3.0 true crowd::slow, "16 clients do not read their replies";
    ROBUST "resets" Words 2.0 true crowd::resets, "clients reset connections under way";
    ROBUST "pipelining" Words 1.0 false crowd::pipelining, "50 requests in one write";
    ROBUST "flood" Nothing 3.0 true crowd::flood, "as many connections as descriptors allow";
    ROBUST "endless-head" Words 2.0 false crowd::endless, "a request without an end, 16 MiB";
    ROBUST "rapid-reset" Http2 2.0 true http2::rapid_reset, "requests that are dropped at once";
    ROBUST "large-body" Http 2.0 false crowd::body, "a body of 16 MiB";
    ROBUST "descriptors" Command 3.0 true life::descriptors, "no descriptor is left";
    ROBUST "leaks" WordsAndProcess 3.0 true life::leaks, "what 300 clients leave behind";
    ROBUST "sigterm" Command 3.0 true life::sigterm, "SIGTERM under load";
    ROBUST "kill" Command 2.0 false life::kill, "SIGKILL and a restart on its port";
    PROTOCOL "h2-preface" Http2 0.5 false http2::preface, "a wrong preface";
    PROTOCOL "old-tls" Tls 1.0 false tls::versions, "TLS 1.0 and 1.1 are asked for";
    PROTOCOL "tls-resumption" Tls 1.0 false tls::resumption, "clients come back with a session";
}

/// All trials for a protocol, or for any.
fn all(speech: Option<&Speech>) -> impl Iterator<Item = Trial> {
    let is_fit = |trial: &Trial| match trial.need {
        Need::Http => speech.is_none_or(|it| it.kind == Kind::Http),
        Need::Http2 => speech.is_none_or(|it| it.kind == Kind::Http2),
        Need::Tls => speech.is_none_or(Speech::has_tls),
        _ => true,
    };
    // Quick ones first; the search for the knee may take all time that is left.
    const ORDER: [&str; 5] = [NATURE, COST, PROTOCOL, ROBUST, CAPACITY];
    let all = [TRIALS, http::TRIALS, http2::TRIALS].concat();
    let mut all: Vec<Trial> = all.into_iter().filter(is_fit).collect();
    all.sort_by_key(|trial| ORDER.iter().position(|section| *section == trial.section));
    all.into_iter()
}

/// The rows in the order of a report.
pub(crate) fn ordered(rows: &mut [CheckupRow]) {
    const ORDER: [&str; 5] = [NATURE, COST, CAPACITY, ROBUST, PROTOCOL];
    rows.sort_by_key(|row| ORDER.iter().position(|section| *section == row.section));
}

/// The names of all trials.
pub fn names() -> Vec<&'static str> {
    all(None).map(|trial| trial.name).collect()
}

/// The trials that were asked for.
pub(crate) fn chosen(only: &[String], speech: &Speech) -> Vec<Trial> {
    let is_wanted = |trial: &Trial| only.is_empty() || only.iter().any(|it| it == trial.name);
    all(Some(speech)).filter(is_wanted).collect()
}

/// The row of a trial that is not made yet.
pub(crate) fn planned(trial: &Trial, stand: &Stand) -> CheckupRow {
    CheckupRow {
        section: trial.section.to_owned(),
        name: trial.name.to_owned(),
        about: trial.about.to_owned(),
        repeat: again("checkup", &stand.text, trial.name, &stand.options.repeat),
        ..CheckupRow::default()
    }
}

pub(crate) fn attempt(trial: &Trial, stand: &mut Stand) -> CheckupRow {
    let begun = Instant::now();
    let finding = match refusal(trial, stand) {
        Some(why) => Finding::untried(&why),
        None => settled(trial, stand),
    };
    let mut row = CheckupRow {
        judgement: finding.judgement,
        evidence: finding.evidence,
        reason: finding.reason,
        measured: finding.measured.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect(),
        ..planned(trial, stand)
    };
    if row.judgement >= Judgement::Attention {
        row.remedy = remedy::of(trial.name, &stand.program()).to_owned();
    }
    row.seconds = begun.elapsed().as_millis() as f64 / 1e3;
    row
}

/// Why a trial cannot be made.
fn refusal(trial: &Trial, stand: &Stand) -> Option<String> {
    if let Some(why) = &stand.gone {
        return Some(why.clone());
    }
    if stand.left() < Duration::from_secs_f64(trial.seconds) {
        return Some(LATE.to_owned());
    }
    let words =
        (stand.speech.kind == Kind::Plain).then_some("its protocol is unknown: give it as a URL");
    let process = stand.life.pid().is_none().then_some("its process cannot be seen from here");
    let command = (!stand.life.is_ours()).then_some("the server runs already: give its command");
    let lacks = match trial.need {
        Need::Nothing | Need::Http | Need::Http2 | Need::Tls => None,
        Need::Words => words,
        Need::Process => process,
        Need::WordsAndProcess => words.or(process),
        Need::Command => command,
    };
    lacks.map(str::to_owned)
}

/// Makes it, again if noise may have been at work, and leaves a server that is well.
fn settled(trial: &Trial, stand: &mut Stand) -> Finding {
    let is_finding = |it: &&Finding| it.judgement >= Judgement::Attention;
    let mut tries = vec![once(trial, stand)];
    let mut findings = tries.iter().filter(is_finding).count();
    while trial.is_noisy && findings == 1 && tries.len() < TRIES {
        if stand.gone.is_some() || stand.left() < Duration::from_secs_f64(2.0 * trial.seconds) {
            break;
        }
        tries.push(once(trial, stand));
        findings = tries.iter().filter(is_finding).count();
    }
    let (made, stands) = (tries.len(), 2 * findings > tries.len());
    tries.sort_by_key(|finding| finding.judgement);
    let Some(mut finding) = (if stands { tries.pop() } else { tries.into_iter().next() }) else {
        return Finding::untried("no try was made");
    };
    if made > 1 {
        finding.evidence += &format!("; found in {findings} of {made} tries");
    } else if trial.is_noisy && findings > 0 {
        finding.evidence += "; one try, because the time was short";
    }
    finding
}

fn once(trial: &Trial, stand: &mut Stand) -> Finding {
    let mut finding = match trial.act {
        Act::Run(run) => run(stand),
        Act::Http(case) => http::run(case, stand),
        Act::Http2(case) => http2::run(case, stand),
    }
    .unwrap_or_else(|why| Finding::untried(&why));
    let is_well = stand.is_well();
    let is_silent = is_well.is_err();
    if let Err(why) = is_well {
        finding.judgement = Judgement::Fault;
        finding.evidence = [finding.evidence, why].join("; ").trim_start_matches("; ").to_owned();
        finding.reason = "a client that does nothing wrong gets no reply".to_owned();
        stand.life.bury();
    }
    if let Err(why) = stand.life.start() {
        stand.gone = Some(format!("the server cannot be started again: {why}"));
    } else if !stand.life.is_ours() && is_silent {
        stand.gone = Some(format!("the server answers no more after {}", trial.name));
    }
    finding
}

impl<W, S> Case<W, S> {
    /// The judgement on the conduct that was seen, by a rule of the section.
    fn judged(&self, holds: bool, seen: String, rule: &str) -> Finding {
        let (section, rule) = (self.section, format!("{}: {rule}", self.section));
        match (holds, self.is_must) {
            (true, _) => Finding::good(format!("{seen} ({section})")),
            (false, true) => Finding::fault(seen, &rule),
            (false, false) => Finding::attention(seen, &rule),
        }
    }
}

impl Finding {
    fn good(evidence: impl Into<String>) -> Finding {
        Finding { judgement: Judgement::Good, evidence: evidence.into(), ..Finding::default() }
    }

    fn attention(evidence: impl Into<String>, reason: &str) -> Finding {
        let reason = reason.to_owned();
        Finding { judgement: Judgement::Attention, reason, ..Finding::good(evidence) }
    }

    fn fault(evidence: impl Into<String>, reason: &str) -> Finding {
        let reason = reason.to_owned();
        Finding { judgement: Judgement::Fault, reason, ..Finding::good(evidence) }
    }

    fn untried(why: &str) -> Finding {
        Finding { reason: why.to_owned(), ..Finding::default() }
    }

    fn is_good(&self) -> bool {
        self.judgement == Judgement::Good
    }

    fn measured(mut self, name: &'static str, value: f64) -> Finding {
        self.measured.push((name, value));
        self
    }
}
