//! Trials of the file, of the end and the next start, and of the leftovers of clients.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use super::{Outcome, follow};
use crate::client::Client;
use crate::confined::Member;
use crate::market::{Ask, Rows};
use crate::stand::{Stand, within};

/// The time after which a client's leftovers must be gone.
const SETTLED: Duration = Duration::from_secs(3);
/// Clients before the first count, which fill caches and pools, and those between two counts.
const VISITS: [usize; 2] = [150, 300];
/// Counts that must all find growth: a pool of hundreds of threads touches its stacks one by one.
const PERIODS: usize = 5;
/// Descriptors and threads whose growth is no leak.
const NOISE: u64 = 8;
/// 2 KiB for each client, a quarter of the text book's read buffer, and once 512 KiB.
const GROWTH_MAX: u64 = VISITS[1] as u64 * 2048 + (512 << 10);

/// Connects and changes the book by some orders.
fn trade(stand: &Stand<'_>, book: &mut Rows) -> Result<Client, String> {
    let mut client = stand.connect()?;
    let mut asks = [Ask::Buy(3, 7), Ask::Sell(10, 950), Ask::Buy(5, 1)].into_iter();
    asks.try_for_each(|ask| follow(&mut client, book, ask)).map(|()| client)
}

pub(super) fn file(stand: &mut Stand<'_>) -> Outcome {
    let mut book = stand.book.clone();
    (0..3).try_for_each(|_| {
        drop(trade(stand, &mut book)?);
        stand.saved(&book).map_err(|why| format!("after the last client has left: {why}"))
    })
}

pub(super) fn interrupt(stand: &mut Stand<'_>) -> Outcome {
    let mut book = stand.book.clone();
    let _client = trade(stand, &mut book)?;
    stand.interrupt()?;
    stand.saved(&book).map_err(|why| format!("after SIGINT with a client connected: {why}"))
}

/// A file that keeps its inode number while its contents change is rewritten in place.
pub(super) fn whole_file(stand: &mut Stand<'_>) -> Outcome {
    // While it is open, no other file has its number.
    let old = File::open(stand.path()).map_err(|error| format!("stock.txt: {error}"))?;
    let mut book = stand.book.clone();
    drop(trade(stand, &mut book)?);
    stand.saved(&book)?;
    let number = |about: io::Result<Metadata>| about.map(|about| about.ino()).ok();
    let is_new = number(old.metadata()) != number(fs::metadata(stand.path()));
    is_new.then_some(()).ok_or_else(|| {
        "stock.txt is rewritten in place, so a crash or a reader can meet a part of it: write a \
         new file, then rename it"
            .to_owned()
    })
}

/// The server closes first, so its port remembers the connection (TIME_WAIT).
pub(super) fn restart(stand: &mut Stand<'_>) -> Outcome {
    let _client = trade(stand, &mut stand.book.clone())?;
    stand.interrupt()?;
    let file = stand.file()?;
    stand.restart().map_err(|why| format!("the second start fails: {why}"))?;
    stand.shows(&file).map_err(|why| format!("after the second start: {why}"))
}

/// Serves `count` clients, one after the other.
fn visits(stand: &Stand<'_>, count: usize) -> Outcome {
    (0..count).try_for_each(|_| stand.shows(&stand.book))
}

pub(super) fn zombies(stand: &mut Stand<'_>) -> Outcome {
    visits(stand, 40)?;
    thread::sleep(SETTLED / 30);
    visits(stand, 1)?;
    let count = || stand.server.members().iter().filter(|member| member.is_zombie).count();
    // A server may reap when the next client comes.
    let few = within(SETTLED, || count() <= 2).then_some(());
    few.ok_or_else(|| format!("{} of 41 clients left a zombie: reap children on SIGCHLD", count()))
}

pub(super) fn leaks(stand: &mut Stand<'_>) -> Outcome {
    let open = |pid| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count) as u64;
    let count = || {
        thread::sleep(SETTLED / 30);
        let members = stand.server.members().into_iter();
        members.map(|member| (member, open(member.pid))).collect::<Vec<_>>()
    };
    visits(stand, VISITS[0])?;
    for period in 1..=PERIODS {
        let before = count();
        visits(stand, VISITS[1])?;
        let mut leak = None;
        within(SETTLED / if period == 1 { 1 } else { 10 }, || {
            let after = count();
            // Processes that live through both counts.
            let pair =
                |old: &(Member, u64)| Some((*old, *after.iter().find(|it| it.0.pid == old.0.pid)?));
            leak = before.iter().filter_map(pair).find_map(|(old, new)| leftover(old, new));
            leak.is_none()
        });
        match leak {
            None => return Ok(()),
            Some(what) if period == PERIODS => {
                return Err(format!("{} clients left behind {what}, {PERIODS} times", VISITS[1]));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The growth of a process, with its descriptors, between two moments, if that is a leak.
fn leftover(old: (Member, u64), new: (Member, u64)) -> Option<String> {
    let descriptors = new.1.saturating_sub(old.1);
    let threads = new.0.threads.saturating_sub(old.0.threads);
    let bytes = new.0.anonymous_bytes.saturating_sub(old.0.anonymous_bytes);
    if descriptors > NOISE || threads > NOISE {
        return Some(format!("{descriptors} open descriptors and {threads} threads"));
    }
    let kb = bytes >> 10;
    (bytes > GROWTH_MAX).then(|| format!("{kb} KiB: free buffers, join or detach threads"))
}
