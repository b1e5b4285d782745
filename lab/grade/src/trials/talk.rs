//! Trials of the protocol: one client, or few that take turns. Every reply has one right value.

use std::time::Instant;

use stats::Rng;

use super::books::draw;
use super::{Outcome, expect, follow};
use crate::client::{APART, Ending};
use crate::market::{Ask, Rows, quoted};
use crate::stand::Stand;

/// Lines that no server may execute.
const NONSENSE: &str = "hello\n\nbuy\nbuy 1\nbuy x y\nbuy 999999 1\nsell 999999 1\nbuy 1 -5\n\
    sell 1 -5\nbuy 1 99999999999999999999\nsell 1 99999999999999999999\n\0\u{80}\u{ff}\n";
/// The beginning of a line that does not end.
const LONG: &[u8] = &[b'a'; 100_000];

pub(super) fn golden(stand: &mut Stand<'_>) -> Outcome {
    let mut book = stand.book.clone();
    let mut client = stand.connect()?;
    let before = [Ask::Show, Ask::Buy(3, 40), Ask::Sell(5, 7), Ask::Buy(3, 61), Ask::Show];
    let after = [Ask::Buy(3, 60), Ask::Buy(3, 1), Ask::Show];
    before.into_iter().chain(after).try_for_each(|ask| follow(&mut client, &mut book, ask))
}

/// One reply of each kind, of which the first other wording counts.
pub(super) fn wording(stand: &mut Stand<'_>) -> Outcome {
    let (mut book, mut client) = (stand.book.clone(), stand.connect()?);
    let asks = [Ask::Show, Ask::Buy(3, 1), Ask::Sell(3, 1), Ask::Buy(3, 101)];
    asks.into_iter().try_for_each(|ask| follow(&mut client, &mut book, ask))?;
    match (client.wording.as_str(), stand.access.ending) {
        ("", Ending::Framed(_)) => Ok(()),
        ("", Ending::Count) => Err("the replies do not say where they end".to_owned()),
        (wording, _) => Err(wording.to_owned()),
    }
}

pub(super) fn exit(stand: &mut Stand<'_>) -> Outcome {
    let mut client = stand.connect()?;
    follow(&mut client, &mut stand.book.clone(), Ask::Show)?;
    client.send(b"exit\n")?;
    if !client.sees_end() {
        return Err("`exit`: expected the server to close the connection".to_owned());
    }
    stand.shows(&stand.book)
}

/// A fresh server for each size. All other trials have ten stocks.
pub(super) fn book_size(stand: &mut Stand<'_>) -> Outcome {
    for count in [3, 20, 200] {
        let left = stand.end.saturating_duration_since(Instant::now());
        let other = Stand::start(stand.subject, Rows::of(count, 100), left);
        other
            .and_then(|mut other| {
                let told = other.shows(&other.book);
                let end = other.server.obituary().filter(|_| told.is_err());
                told.map_err(|why| end.map_or(why, |end| format!("the server {end}")))
            })
            .map_err(|why| format!("with {count} stocks: {why}"))?;
    }
    Ok(())
}

pub(super) fn interleaved(stand: &mut Stand<'_>) -> Outcome {
    let (mut book, mut rng) = (stand.book.clone(), Rng::new(1));
    let mut clients = (0..4).map(|_| stand.connect()).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..100 {
        let at = rng.below(clients.len());
        follow(&mut clients[at], &mut book, draw(&mut rng, 4))
            .map_err(|why| format!("client {} of 4 open connections: {why}", at + 1))?;
    }
    Ok(())
}

pub(super) fn pipelining(stand: &mut Stand<'_>) -> Outcome {
    let (mut book, mut rng) = (stand.book.clone(), Rng::new(2));
    let mut client = stand.connect()?;
    for _ in 0..10 {
        let asks: Vec<Ask> = (0..20).map(|_| draw(&mut rng, 4)).collect();
        client.send(&asks.iter().flat_map(|ask| ask.line()).collect::<Vec<u8>>())?;
        for (at, &ask) in asks.iter().enumerate() {
            expect(&mut client, &mut book, ask)
                .map_err(|why| format!("reply {} to 20 requests sent together: {why}", at + 1))?;
        }
    }
    Ok(())
}

pub(super) fn half_lines(stand: &mut Stand<'_>) -> Outcome {
    let mut book = stand.book.clone();
    let mut client = stand.connect()?;
    for ask in [Ask::Sell(3, 12), Ask::Show, Ask::Buy(3, 1)] {
        let line = ask.line();
        let cuts = (1..line.len()).map(|cut| vec![&line[..cut], &line[cut..]]);
        for pieces in cuts.chain([line.chunks(1).collect()]) {
            client.dribble(&pieces)?;
            let sent: Vec<String> = pieces.iter().take(3).map(|piece| quoted(piece)).collect();
            let told = |why| format!("sent in pieces {}: {why}", sent.join(", "));
            expect(&mut client, &mut book, ask).map_err(told)?;
        }
    }
    Ok(())
}

pub(super) fn bad_input(stand: &mut Stand<'_>) -> Outcome {
    for line in NONSENSE.split_inclusive('\n').map(str::as_bytes).chain([LONG]) {
        let mut client = stand.connect()?;
        // The server may close at once, reply, or ignore the line.
        let _ = client.send(line);
        client.leave(12 * APART);
        stand.shows(&stand.book).map_err(|why| format!("after {}: {why}", quoted(line)))?;
    }
    Ok(())
}
