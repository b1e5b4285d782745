//! Trials with many clients, and with clients that misbehave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use checkup::alongside;
use rustix::process::Signal;

use super::{Outcome, follow};
use crate::client::{Access, Client};
use crate::market::{Ask, Told};
use crate::stand::Stand;

const MS: Duration = Duration::from_millis(1);
/// The limit of each wait while other clients disturb.
const DISTURBED: Duration = Duration::from_secs(3);
/// More listings than all buffers between two programs hold (tcp(7): 4 MB and 6 MB).
const TOO_MANY: usize = 100_000;
/// Clients that list while another orders: of fewer, all are outside at one moment now and then.
const LISTERS: usize = 16;

/// As many clients as possible are connected before the first one asks. A server that serves some
/// at a time reaches the others when those have left.
pub(super) fn clients(stand: &mut Stand<'_>, count: usize) -> Outcome {
    // A connect that takes longer waits until the server has accepted others.
    let first = Access { patience: 500 * MS, ..stand.access };
    let mut open: Vec<Client> = (0..count).map_while(|_| first.connect().ok()).collect();
    let access = Access { patience: 40_000 * MS, ..stand.access };
    let (mut lives, mut book) = (Vec::new(), stand.book.clone());
    for id in (1..=10).cycle().take(count) {
        book.execute(Ask::Sell(id, 1));
        let early = open.pop();
        lives.push(thread::spawn(move || {
            let mut client = early.map_or_else(|| access.connect(), Ok)?;
            client.access = access;
            let mut asks = [Ask::Sell(id, 3), Ask::Buy(id, 2), Ask::Show].into_iter();
            asks.try_for_each(|ask| match client.ask(ask)? {
                Told::NotEnough => Err(format!("`{ask}`: refused, and plenty is left")),
                Told::Done | Told::Rows(_) => Ok(()),
            })
        }));
    }
    let ends = lives.into_iter().map(|life| life.join().expect("a client does not panic"));
    let ends = ends.collect();
    stand.each(count, ends)?;
    stand.shows(&book).map_err(|why| format!("after {count} clients: {why}"))
}

pub(super) fn slow(stand: &mut Stand<'_>) -> Outcome {
    let mut book = stand.book.clone();
    let access = Access { patience: DISTURBED, ..stand.access };
    let mut others = |first: &str| {
        let asks = [Ask::Show, Ask::Sell(1, 1), Ask::Buy(2, 1)];
        let served = access.connect().and_then(|mut client| {
            asks.into_iter().try_for_each(|ask| follow(&mut client, &mut book, ask))
        });
        served.map_err(|why| format!("beyond a client that {first}, another one: {why}"))
    };
    let silent = stand.connect()?;
    others("sends nothing")?;
    drop(silent);
    let mut half = stand.connect()?;
    half.send(b"sell 3")?;
    thread::sleep(20 * MS);
    others("has sent half a line")?;
    drop(half);
    let mut deaf = stand.connect()?;
    // A server that reads no further is right: the requests need not fit anywhere.
    let _ = deaf.link.stream.socket.set_write_timeout(Some(300 * MS));
    let _ = deaf.send(&b"show\n".repeat(TOO_MANY));
    thread::sleep(300 * MS);
    others("does not read its replies")?;
    // It leaves with replies unread, which `reset` tries.
    stand.is_ended = true;
    Ok(())
}

/// Clients that leave in order, with nothing unread.
pub(super) fn killed(stand: &mut Stand<'_>) -> Outcome {
    for round in 0..30 {
        let mut client = stand.connect()?;
        match round % 3 {
            0 => {}
            1 => follow(&mut client, &mut stand.book.clone(), Ask::Show)?,
            _ => client.send(b"sell 1")?,
        }
        drop(client);
        if round % 6 == 5 {
            stand.shows(&stand.book).map_err(|why| format!("after clients have left: {why}"))?;
        }
    }
    Ok(())
}

/// Clients that close with replies unread, which resets the connection (RFC 9293, section 3.6.1).
pub(super) fn reset(stand: &mut Stand<'_>) -> Outcome {
    for round in 0..20 {
        let mut client = stand.connect()?;
        if round % 2 == 0 {
            // The first reply meets a closed socket, the second one an error.
            client.send(&b"show\n".repeat(20))?;
        } else {
            client.send(&b"show\n".repeat(200))?;
            thread::sleep(3 * MS);
        }
        drop(client);
        if round % 4 == 3 {
            stand.shows(&stand.book).map_err(|why| format!("after a reset: {why}"))?;
        }
    }
    Ok(())
}

/// Where a server forks, a client that leaves is a child that ends (SIGCHLD). Stopping and
/// continuing interrupts waits even without a handler (signal(7)).
pub(super) fn signals(stand: &mut Stand<'_>) -> Outcome {
    for _ in 0..10 {
        stand.shows(&stand.book).map_err(|why| format!("after clients have left: {why}"))?;
        thread::sleep(5 * MS);
    }
    let mut book = stand.book.clone();
    let mut client = stand.connect()?;
    for _ in 0..5 {
        stand.server.signal(Signal::STOP);
        thread::sleep(20 * MS);
        stand.server.signal(Signal::CONT);
        let told = |why| format!("after SIGSTOP and SIGCONT: {why}");
        follow(&mut client, &mut book, Ask::Sell(1, 1)).map_err(told)?;
        follow(&mut client, &mut book, Ask::Show).map_err(told)?;
    }
    Ok(())
}

pub(super) fn starvation(stand: &mut Stand<'_>) -> Outcome {
    let mut book = stand.book.clone();
    // It connects first, so that a pool has a worker for it.
    let mut writer = Access { patience: DISTURBED, ..stand.access }.connect()?;
    follow(&mut writer, &mut book, Ask::Sell(1, 1))?;
    let access = Access { patience: 250 * MS, ..stand.access };
    let list = |_, is_over: &AtomicBool| {
        // Readers only disturb; whether they are served is not the question.
        let mut client = access.connect();
        while !is_over.load(Ordering::Relaxed) {
            if !client.as_mut().is_ok_and(|client| client.ask(Ask::Show).is_ok()) {
                client = access.connect();
            }
        }
    };
    let (told, _) = alongside(LISTERS, list, || {
        thread::sleep(100 * MS);
        let mut asks = [Ask::Buy(1, 1), Ask::Sell(1, 1)].into_iter().cycle().take(20);
        asks.try_for_each(|ask| follow(&mut writer, &mut book, ask))
    });
    told.map_err(|why| match why.contains("no reply") {
        true => format!("a writer starves while 16 clients list: {why}"),
        false => format!("while 16 clients list: {why}"),
    })
}
