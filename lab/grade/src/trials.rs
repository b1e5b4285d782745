//! The table of trials.
//!
//! Each has a fresh server, so that a crash in one does not fail the next. At most four clients
//! that need each other are connected at a time: the text book's pool has four threads.

mod books;
mod crowd;
mod life;
mod talk;

use crate::client::Client;
use crate::given::GivenTrial;
use crate::market::{Ask, Rows, Told};
use crate::stand::Stand;

/// The outcome of a trial; the error is the reason for its lost points.
pub(crate) type Outcome = Result<(), String>;

#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    /// The name for `--only` and weights.
    pub(crate) name: &'a str,
    /// Its points; those of ours sum to 100 by default.
    pub(crate) points: u32,
    /// The promise that is tried.
    pub(crate) about: &'a str,
    /// The number of stocks, and the pieces of each.
    pub(crate) book: (u32, i64),
    /// The limit of the whole trial.
    pub(crate) seconds: u64,
    pub(crate) act: Act<'a>,
}

#[derive(Clone, Copy)]
pub(crate) enum Act<'a> {
    Run(fn(&mut Stand<'_>) -> Outcome),
    Talk(&'a GivenTrial),
}

pub(crate) const FEW: (u32, i64) = (10, 100);
/// Enough for every buy.
const PLENTY: (u32, i64) = (10, 1_000_000);
/// So few pieces that buys are refused.
const SCARCE: (u32, i64) = (10, 6);
/// Pieces whose number gains a digit while others list.
const EDGE: (u32, i64) = (10, 99_990);

macro_rules! trials {
    ($($name:literal, $points:literal, $book:ident, $seconds:expr, $run:expr, $about:expr;)*) => {
        /// All trials, in the order in which they are made.
        pub(crate) const TRIALS: &[Trial<'static>] = &[$(Trial {
            name: $name, points: $points, about: $about, book: $book, seconds: $seconds,
            act: Act::Run($run),
        }),*];
    };
}

trials! {
    "golden", 5, FEW, 30, talk::golden, "one client: show, buy, sell, a refusal";
    "wording", 2, FEW, 30, talk::wording, "replies in the words of the course";
    "exit", 1, FEW, 30, talk::exit, "`exit` closes the connection";
    "book-size", 2, FEW, 30, talk::book_size, "books of 3, 20 and 200 stocks";
    "interleaved", 6, SCARCE, 30, talk::interleaved, "four clients take turns";
    "pipelining", 6, SCARCE, 30, talk::pipelining, "requests that arrive together, in order";
    "half-lines", 6, PLENTY, 30, talk::half_lines, "a line may arrive in pieces";
    "bad-input", 4, PLENTY, 30, talk::bad_input, "nonsense changes nothing, stops nothing";
    "clients-1", 2, PLENTY, 30, |it| crowd::clients(it, 1), "one client";
    "clients-10", 3, PLENTY, 30, |it| crowd::clients(it, 10), "10 clients at once";
    "clients-100", 3, PLENTY, 30, |it| crowd::clients(it, 100), "100 clients at once";
    "clients-1000", 3, PLENTY, 60, |it| crowd::clients(it, 1000), "1000 clients at once";
    "slow-clients", 7, PLENTY, 30, crowd::slow, "slow and idle clients stop nobody else";
    "killed-clients", 4, PLENTY, 30, crowd::killed, "clients may leave at any byte";
    "reset", 2, PLENTY, 30, crowd::reset, "clients may leave with replies on their way";
    "signals", 3, PLENTY, 30, crowd::signals, "interrupted calls are repeated";
    "starvation", 5, PLENTY, 30, crowd::starvation, "orders get through while others list";
    "conservation", 7, PLENTY, 60, books::conservation, "10,000 requests, and the books balance";
    "torn-show", 4, EDGE, 30, books::torn_show, "no row of a listing mixes two states";
    "linearisability", 7, SCARCE, 30, books::linearisability, "some order explains all replies";
    "file", 5, FEW, 60, life::file, "the file holds the book after the last client";
    "interrupt", 4, FEW, 30, life::interrupt, "SIGINT saves the book and ends the server";
    "whole-file", 2, FEW, 30, life::whole_file, "the file is replaced, not rewritten in place";
    "restart", 2, FEW, 30, life::restart, "the next start finds port and book";
    "zombies", 2, PLENTY, 30, life::zombies, "children that ended are reaped";
    "leaks", 3, PLENTY, 30, life::leaks, "clients leave no descriptors and no memory";
}

/// Asks and expects the only right reply, where nobody else trades.
pub(crate) fn follow(client: &mut Client, book: &mut Rows, ask: Ask) -> Outcome {
    client.send(&ask.line())?;
    expect(client, book, ask)
}

/// Expects the only right reply to a request that was sent.
fn expect(client: &mut Client, book: &mut Rows, ask: Ask) -> Outcome {
    match (book.execute(ask), client.hear(ask)?) {
        (Told::Rows(wanted), Told::Rows(found)) => {
            wanted.same(&found).map_err(|why| format!("`show`: {why}"))
        }
        (wanted, found) if wanted == found => Ok(()),
        (wanted, found) => Err(format!("`{ask}`: expected {wanted}, found {found}")),
    }
}
