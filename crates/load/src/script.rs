//! What is asked, and whether the reply is right: the protocol script.
//!
//! A script is sans-I/O. It fills bytes that the driver sends, is fed bytes that the driver
//! received, and keeps for each connection what it still waits for. It borrows what it is fed and
//! says how much it used; the driver keeps the rest and offers it again with more behind it.
//!
//! A run may also be audited: when all is over the driver asks one last request on a connection
//! of its own and the script gives its verdict from the reply.

pub(crate) mod echo;
mod http;
mod ledger;
mod line;
mod stock;

pub use echo::Echo;
pub use http::{Http, HttpOptions, Wanted};
pub use line::{Line, LineOptions};
pub use stock::{SHOW, Stock, StockOptions};

use crate::faults::{FaultKind, Faults};
use crate::report::Check;

/// What a script made of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// How many bytes, from the front, will not be needed again.
    pub used: usize,
    /// How many requests they answered, right or wrong.
    pub done: u32,
    /// How many of those wrongly; they are also counted as faults.
    pub wrong: u32,
    /// The last of these replies says that the server ends the connection behind it.
    pub over: bool,
}

/// One reply, where kinds of requests are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which of [`Script::kinds`].
    pub kind: u16,
    /// Length of the reply (bytes).
    pub bytes: u32,
    /// Whether it was wrong.
    pub wrong: bool,
}

/// Where a script reports what it hears.
pub struct Ear<'a> {
    faults: &'a mut Faults,
    notes: Option<&'a mut Notes>,
}

/// Replies heard at once, each with what was wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) list: Vec<Note>,
    /// Faults of replies: the place in `list` that the next note will take, kind, words.
    pub(crate) faults: Vec<(usize, FaultKind, String)>,
}

/// A protocol, from the client's side. Connections are named by their place `at`, from zero.
pub trait Script: Send {
    /// Makes places for so many connections, if there are fewer.
    fn reserve(&mut self, connections: usize);

    /// Other threads speak to the same server at the same time.
    fn share(&mut self) {}

    /// A connection is made at `at`; nothing is owed on it.
    fn open(&mut self, at: usize);

    /// Appends `count` requests to `out`.
    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>);

    /// Takes what came on the connection, the unused rest of the last time first.
    fn hear(&mut self, at: usize, bytes: &[u8], ear: &mut Ear<'_>) -> Heard;

    /// The server will send nothing more; `rest` is what was not used. Some replies end so.
    fn ended(&mut self, _at: usize, _rest: &[u8], _ear: &mut Ear<'_>) -> Heard {
        Heard::default()
    }

    /// How many greetings the server has sent on this connection, where it owes one on accept.
    fn greetings(&self, _at: usize) -> Option<u32> {
        None
    }

    /// The connection is gone; what is unanswered on it may or may not have happened.
    fn close(&mut self, at: usize);

    /// Whether requests that a closed connection left unanswered may be asked once more, because
    /// asking changes nothing at the server (RFC 9110 section 9.2.2).
    fn may_repeat(&self) -> bool {
        false
    }

    /// The kinds of requests, by name: what [`Note::kind`] counts through.
    fn kinds(&self) -> Vec<String>;

    /// What to ask on a connection of its own when all is over; empty if there is no audit.
    fn audit(&self) -> &[u8] {
        b""
    }

    /// Whether `reply` holds the whole answer to [`Script::audit`].
    fn audit_is_whole(&self, _reply: &[u8]) -> bool {
        true
    }

    /// What this script has counted, so that the verdict of another thread's script of the same
    /// kind can speak for both.
    fn account(&self) -> Account {
        Account::default()
    }

    /// Judges the run as a whole, from the answer to [`Script::audit`] and the accounts of the
    /// other threads.
    fn verdict(&self, reply: &[u8], others: &[Account]) -> Check;
}

/// Sums that scripts of several threads add up before a verdict. What stands at which place is
/// each script's own business; all scripts of a run agree on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account(pub Vec<u64>);

impl<'a> Ear<'a> {
    /// An ear that tells kinds apart if it is given `notes`.
    pub(crate) fn new(faults: &'a mut Faults, notes: Option<&'a mut Notes>) -> Self {
        Self { faults, notes }
    }

    /// A reply was wrong; say so before its [`Ear::note`]. Words are made if they are kept.
    pub(crate) fn fault(&mut self, kind: FaultKind, words: impl Fn() -> String) {
        self.faults.count(kind, &words);
        if let Some(notes) = &mut self.notes {
            notes.faults.push((notes.list.len(), kind, words()));
        }
    }

    /// Whether kinds are told apart; else notes are thrown away.
    pub(crate) fn is_detailed(&self) -> bool {
        self.notes.is_some()
    }

    /// A reply is whole.
    pub(crate) fn note(&mut self, kind: u16, bytes: usize, wrong: bool) {
        if let Some(notes) = &mut self.notes {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            notes.list.push(Note { kind, bytes, wrong });
        }
    }
}

/// Bytes that came although everything asked was answered: they are counted and thrown away.
fn unasked(extra: &[u8], ear: &mut Ear<'_>) -> usize {
    ear.fault(FaultKind::UnaskedBytes, || format!("found {}", shown(extra)));
    extra.len()
}

/// The front of a reply as text for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let cut = bytes.len().min(60);
    let dots = if cut < bytes.len() { "..." } else { "" };
    format!("`{}`{dots}", bytes[..cut].escape_ascii())
}
