//! The protocol script: it makes requests and checks replies.
//!
//! A script is sans-I/O. It fills a buffer that the driver sends, is fed bytes that the driver
//! received, and keeps the outstanding requests of each connection. It borrows its input and says
//! how much it used; the driver keeps the rest and offers it again with more.
//!
//! A run may be audited: at its end the driver sends one last request on a separate connection,
//! and the script gives its verdict on the reply.

pub(crate) mod echo;
mod http;
mod ledger;
mod line;
mod listing;
mod receipts;
mod stock;

pub use echo::Echo;
pub use http::{
    Expectation, FlowCounters, FlowScript, Flows, Http, Http2, HttpOptions, REQUESTS_MAX,
    WebRequest, WholeReply, flow_of, har, http2_request, status_name, urls, whole_reply,
};
pub use line::{Line, LineOptions};
pub use receipts::{ReceiptFile, Receipts};
pub use stock::{SHOW, Stock, StockOptions};

use crate::faults::{FaultKind, Faults};
use crate::report::Check;
use std::collections::BTreeMap;
use std::time::Duration;

/// The outcome of feeding some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// The number of bytes, from the front, that are no longer needed.
    pub used: usize,
    /// The number of requests that they answered, right or wrong.
    pub done: u32,
    /// The number of wrong answers among those; they also count as faults.
    pub wrong: u32,
    /// The number of requests among those that the overloaded server refused, in the words of its
    /// protocol; they are neither right nor wrong, and no faults.
    pub refused: u32,
    /// The number of right answers among those with an incomplete head, or a body shorter than
    /// announced; they are taken only if that was asked for.
    pub malformed: u32,
    /// The last of these replies announces that the server closes the connection.
    pub over: bool,
}

/// One reply, where kinds of requests are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The index in [`Script::kinds`].
    pub kind: u16,
    /// Length of the reply (bytes).
    pub bytes: u32,
    /// Whether it was wrong.
    pub wrong: bool,
    /// Its status; 0 if it has none.
    pub status: u16,
}

/// A script's log of replies and faults.
pub struct ReplyLog<'a> {
    faults: &'a mut Faults,
    notes: Option<&'a mut Notes>,
}

/// Replies received at once, each with its fault.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) list: Vec<Note>,
    /// Faults of replies: the index in `list` of the next note, kind, description.
    pub(crate) faults: Vec<(usize, FaultKind, String)>,
}

/// A protocol, from the client's side. Connections are identified by their slot `at`, from zero.
pub trait Script: Send {
    /// Makes slots for this many connections, if there are fewer.
    fn reserve(&mut self, connections: usize);

    /// Other threads use the same server at the same time.
    fn share(&mut self) {}

    /// A new user or session is at `at`.
    fn enter(&mut self, _at: usize) {}

    /// A connection is made at `at`; nothing is outstanding on it.
    fn open(&mut self, at: usize) {
        self.close(at);
    }

    /// Appends `count` requests to `out`.
    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>);

    /// Consumes input of the connection, beginning with the unused rest of the last call.
    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies;

    /// The places of the requests that the last [`Script::receive`] answered, each among those
    /// that were unanswered then; 0 is the oldest. `None`: replies have the order of requests.
    fn order(&self, _at: usize) -> Option<&[u32]> {
        None
    }

    /// Appends what the protocol has to say after input, without a new request.
    fn answer(&mut self, _at: usize, _out: &mut Vec<u8>) {}

    /// The server will send nothing more; `rest` was not used. Some replies end this way.
    fn ended(&mut self, _at: usize, _rest: &[u8], _ear: &mut ReplyLog<'_>) -> Replies {
        Replies::default()
    }

    /// The number of greetings that the server has sent on this connection, if it sends one on
    /// accept.
    fn greetings(&self, _at: usize) -> Option<u32> {
        None
    }

    /// The pause after the last reply, if it is not that of the model.
    fn pause(&mut self, _at: usize) -> Option<Duration> {
        None
    }

    /// Whether a session has nothing more to send, however many batches it may have.
    fn is_through(&self, _at: usize) -> bool {
        false
    }

    /// The connection is closed; its unanswered requests may or may not have been executed.
    fn close(&mut self, at: usize);

    /// Whether unanswered requests of a closed connection may be sent again, because they are
    /// idempotent (RFC 9110 section 9.2.2), or because the server has not begun them.
    fn may_repeat(&self, _at: usize) -> bool {
        false
    }

    /// Whether requests have numbers, under which the server carries each out once: those without
    /// an answer are sent again after every loss, at the next address, until [`Script::finish`].
    fn is_numbered(&self) -> bool {
        false
    }

    /// No more requests are sent, no more replies come.
    fn finish(&mut self) {}

    /// The kinds of requests, by name; indexed by [`Note::kind`].
    fn kinds(&self) -> Vec<String>;

    /// The request for the audit at the end; empty if there is none.
    fn audit(&self) -> &[u8] {
        b""
    }

    /// Whether `reply` holds the complete answer to [`Script::audit`].
    fn audit_is_whole(&self, _reply: &[u8]) -> bool {
        true
    }

    /// Whether `reply`, which is whole, says that the server is overloaded: the audit is repeated.
    fn audit_is_refused(&self, _reply: &[u8]) -> bool {
        false
    }

    /// The replies by status, if the protocol has one.
    fn statuses(&self) -> BTreeMap<u16, u64> {
        BTreeMap::new()
    }

    /// The counts of this script, in an order that all scripts of a run agree on, so that another
    /// thread's script can judge for both.
    fn totals(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Judges the run as a whole, from the answer to [`Script::audit`] and the totals of the other
    /// threads.
    fn verdict(&self, reply: &[u8], others: &[Vec<u64>]) -> Check;
}

impl<'a> ReplyLog<'a> {
    /// A log that distinguishes kinds if it is given `notes`.
    pub(crate) fn new(faults: &'a mut Faults, notes: Option<&'a mut Notes>) -> Self {
        Self { faults, notes }
    }

    /// Reports a wrong reply, before its [`ReplyLog::note`]. The description is built only if it is
    /// kept.
    pub(crate) fn fault(&mut self, kind: FaultKind, words: impl Fn() -> String) {
        self.faults.count(kind, &words);
        if let Some(notes) = &mut self.notes {
            notes.faults.push((notes.list.len(), kind, words()));
        }
    }

    /// Whether kinds are counted separately; otherwise notes are discarded.
    pub(crate) fn is_detailed(&self) -> bool {
        self.notes.is_some()
    }

    /// Reports a complete reply.
    pub(crate) fn note(&mut self, kind: u16, bytes: usize, wrong: bool) {
        if let Some(notes) = &mut self.notes {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            notes.list.push(Note { kind, bytes, wrong, status: 0 });
        }
    }

    /// Adds its status to the reply that was noted last.
    pub(crate) fn status(&mut self, status: u16) {
        if let Some(note) = self.notes.as_mut().and_then(|notes| notes.list.last_mut()) {
            note.status = status;
        }
    }
}

/// Bytes that arrived although every request is answered: counted and discarded.
fn unasked(extra: &[u8], log: &mut ReplyLog<'_>) -> usize {
    log.fault(FaultKind::UnaskedBytes, || format!("found {}", shown(extra)));
    extra.len()
}

/// The beginning of a reply as text for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let dots = if bytes.len() > 60 { "..." } else { "" };
    format!("`{}`{dots}", stats::words::visible(bytes, 60))
}
