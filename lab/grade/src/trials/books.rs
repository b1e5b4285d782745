//! Trials of the book while clients trade at the same time. All of them record a history.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use checkup::alongside;
use stats::Rng;

use super::Outcome;
use crate::client::Client;
use crate::linear::{self, Effect, Event};
use crate::market::{Ask, BookRow, Rows, Told};
use crate::stand::Stand;

/// Clients that trade at the same time.
const CLIENTS: usize = 4;
/// Pieces that move while others list: from five digits to six and back.
const STEP: i64 = 20;

/// All effects, each with its stock.
type History = Vec<(u32, Event)>;

/// Runs the clients, each with `rounds` requests that `choose` makes from its number, the round and
/// a random stream. Then asks for the book, the last part of the history.
fn history(
    stand: &Stand<'_>,
    rounds: usize,
    choose: fn(usize, usize, &mut Rng) -> Ask,
) -> Result<(History, Rows), String> {
    let begin = Instant::now();
    let now = || begin.elapsed().as_nanos() as u64;
    let ask = &|client: &mut Client, ask: Ask, events: &mut History| {
        let call = now();
        let told = client.ask(ask)?;
        record(events, &stand.book, ask, &told, [call, now()]).map(|()| told)
    };
    let life = |at: usize, _: &AtomicBool| {
        let (mut client, mut rng) = (stand.connect()?, Rng::new(at as u64));
        let mut events = History::new();
        let mut asks = (0..rounds).map(|round| choose(at, round, &mut rng));
        asks.try_for_each(|next| ask(&mut client, next, &mut events).map(drop)).map(|()| events)
    };
    let ((), lives) = alongside(CLIENTS, life, || ());
    let mut events = lives.into_iter().collect::<Result<Vec<History>, String>>()?.concat();
    match ask(&mut stand.connect()?, Ask::Show, &mut events)? {
        Told::Rows(rows) => Ok((events, rows)),
        told => Err(format!("`show`: expected rows, found {told}")),
    }
}

/// Adds the effects of one request on each stock that it concerns.
fn record(
    events: &mut History,
    book: &Rows,
    ask: Ask,
    told: &Told,
    [call, reply]: [u64; 2],
) -> Outcome {
    let mut add = |id, effect| events.push((id, Event { call, reply, effect }));
    match (ask, told) {
        (Ask::Show, Told::Rows(rows)) => {
            rows.0.iter().for_each(|row| add(row.id, Effect::Read(row.left)));
            // All but the pieces left must be as in the book.
            let left = |id| rows.row(id).map_or(0, |row| row.left);
            let rows_of = |row: &BookRow| BookRow { left: left(row.id), ..*row };
            return Rows(book.0.iter().map(rows_of).collect()).same(rows);
        }
        (Ask::Buy(id, count), Told::Done) => add(id, Effect::Bought(count)),
        (Ask::Buy(id, count), Told::NotEnough) => add(id, Effect::Refused(count)),
        (Ask::Sell(id, count), Told::Done) => add(id, Effect::Sold(count)),
        (ask, told) => return Err(format!("`{ask}`: an impossible reply: {told}")),
    }
    Ok(())
}

/// Whether the last `show` has what the orders made of the first book.
pub(super) fn conservation(stand: &mut Stand<'_>) -> Outcome {
    let (events, last) = history(stand, 2500, |_, _, rng| draw(rng, 9))?;
    let mut book = stand.book.clone();
    for (id, event) in events {
        let change = match event.effect {
            Effect::Bought(count) => -count,
            Effect::Sold(count) => count,
            Effect::Refused(_) | Effect::Read(_) => 0,
        };
        book.0.iter_mut().filter(|row| row.id == id).for_each(|row| row.left += change);
    }
    book.same(&last).map_err(|why| {
        format!("after 10,000 requests of 4 clients: {why}: changes of a stock need a lock")
    })
}

/// One client moves stocks from five digits to six and back; the others list.
pub(super) fn torn_show(stand: &mut Stand<'_>) -> Outcome {
    let events = history(stand, 400, |at, round, _| {
        let id = 1 + (round / 2 % 10) as u32;
        match (at, round % 2) {
            (0, 0) => Ask::Sell(id, STEP),
            (0, _) => Ask::Buy(id, STEP),
            _ => Ask::Show,
        }
    });
    let told = events.and_then(|(events, _)| explained(stand, &events));
    // A client that is not served at all says nothing about buffers.
    let is_unserved =
        |why: &str| ["no reply", "connect", "read requests"].iter().any(|it| why.contains(it));
    told.map_err(|why| match is_unserved(&why) {
        true => why,
        false => format!("{why}; do clients share a buffer?"),
    })
}

pub(super) fn linearisability(stand: &mut Stand<'_>) -> Outcome {
    let (events, _) = history(stand, 400, |_, _, rng| draw(rng, 3))?;
    explained(stand, &events)
}

/// A request for one of three stocks.
pub(super) fn draw(rng: &mut Rng, most: usize) -> Ask {
    let (id, count) = (1 + rng.below(3) as u32, 1 + rng.below(most) as i64);
    let (buy, sell) = (Ask::Buy(id, count), Ask::Sell(id, count));
    *rng.pick(&[Ask::Show, buy, buy, sell, sell])
}

/// Whether each stock has an order of the requests that explains all replies.
fn explained(stand: &Stand<'_>, events: &History) -> Outcome {
    stand.book.0.iter().try_for_each(|row| explain(row, events))
}

fn explain(row: &BookRow, events: &History) -> Outcome {
    let own: Vec<Event> = events.iter().filter(|it| it.0 == row.id).map(|it| it.1).collect();
    linear::check(row.left, &own).map_err(|at| {
        let Event { call, reply, effect } = own[at];
        let beside = own.iter().filter(|it| it.call <= reply && it.reply >= call).count() - 1;
        format!(
            "stock {}: no order of the requests explains that {effect}, with {beside} requests at \
             the same time: an update was lost, or a row was never true",
            row.id
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_update_is_named_with_its_stock() {
        let (mut events, row) = (History::new(), BookRow { id: 2, left: 6, price: 1 });
        let book = Rows(vec![row]);
        let shown = |left| Told::Rows(Rows(vec![BookRow { left, ..row }]));
        let mut add = |ask, told, at| record(&mut events, &book, ask, &told, at);
        add(Ask::Sell(2, 1), Told::Done, [0, 3]).expect("possible");
        add(Ask::Sell(2, 1), Told::Done, [1, 2]).expect("possible");
        add(Ask::Show, shown(7), [4, 5]).expect("possible");
        assert!(add(Ask::Sell(2, 1), Told::NotEnough, [6, 7]).is_err());
        assert!(add(Ask::Show, Told::Rows(Rows(Vec::new())), [6, 7]).is_err());
        let error = explain(&row, &events).expect_err("one sell is lost");
        assert!(error.contains("stock 2") && error.contains("`show` said 7"), "{error}");
    }
}
