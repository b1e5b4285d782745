//! The market of orders beside a model that is too simple to be wrong.

use ::stock::orders::{Exchange, OrderMarket};
use ::stock::{Options, Side};
use memory::Region;
use seam::Service;
use sim::{Act, Case, Client, Faults, Script};
use stats::Rng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use wire::framing::Framing;

const BOOK: &str = "5 0 1000\n1 7 20\n";

fn exchange() -> Region<Exchange> {
    Region::<Exchange>::alone(BOOK.as_bytes())
}

/// One stock: every order that ever was.
#[derive(Clone, Default)]
struct Model {
    orders: Vec<(Side, u64, u64, u64)>,
    price: u64,
    sums: [u64; 2],
}

impl Model {
    fn open(&self, side: Side) -> impl Iterator<Item = usize> + '_ {
        (0..self.orders.len()).filter(move |at| {
            let (its, size, filled, _) = self.orders[*at];
            its == side && size > filled
        })
    }

    /// The best order of a side: price, then age.
    fn best(&self, side: Side) -> Option<usize> {
        match side {
            Side::Buy => self.open(side).min_by_key(|at| u64::MAX - self.orders[*at].3),
            Side::Sell => self.open(side).min_by_key(|at| self.orders[*at].3),
        }
    }

    fn place(&mut self, side: Side, size: u64, price: u64) -> String {
        let (other, mut filled, mut value) =
            (if side == Side::Buy { Side::Sell } else { Side::Buy }, 0, 0);
        while filled < size {
            let Some(at) = self.best(other) else { break };
            let (_, its_size, its_filled, at_price) = &mut self.orders[at];
            let meets = if side == Side::Buy { *at_price <= price } else { *at_price >= price };
            if !meets {
                break;
            }
            let count = (size - filled).min(*its_size - *its_filled);
            *its_filled += count;
            (filled, value) = (filled + count, value + count * *at_price);
            self.price = *at_price;
            self.sums = [self.sums[0] + count, self.sums[1] + count * *at_price];
        }
        self.orders.push((side, size, filled, price));
        let (number, open) = (self.orders.len(), size - filled);
        format!("[{side}] #{number} filled {filled} for {value}, open {open}\n")
    }

    fn cancel(&mut self, number: usize) -> String {
        match self.orders.get_mut(number - 1) {
            None => format!("error: expected the number of a recent order, found {number}\n"),
            Some((_, size, filled, _)) if size == filled => format!("#{number} is not open\n"),
            Some((_, size, filled, _)) => {
                let open = *size - *filled;
                *size = *filled;
                format!("[cancel] #{number} took back {open}\n")
            }
        }
    }

    fn show(&self, id: u32) -> String {
        let best = |side| self.best(side).map_or(0, |at| self.orders[at].3);
        let open =
            |side| -> u64 { self.open(side).map(|at| self.orders[at].1 - self.orders[at].2).sum() };
        let (buy, sell, [traded, value]) = (Side::Buy, Side::Sell, self.sums);
        let (bid, ask, price) = (best(buy), best(sell), self.price);
        format!("{id} {bid} {ask} {price} {} {} {traded} {value}\n", open(buy), open(sell))
    }

    fn depth(&self) -> String {
        let mut levels = [BTreeMap::new(), BTreeMap::new()];
        for side in [Side::Buy, Side::Sell] {
            for at in self.open(side) {
                let (_, size, filled, price) = self.orders[at];
                *levels[side as usize].entry(price).or_insert(0) += size - filled;
            }
        }
        let row = |side: &str, (price, count): (&u64, &u64)| format!("{side} {price} {count}\n");
        let sellers: Vec<_> = levels[1].iter().take(5).map(|level| row("sell", level)).collect();
        let buyers = levels[0].iter().rev().take(5).map(|level| row("buy", level));
        sellers.into_iter().rev().chain(buyers).chain(["\n".to_owned()]).collect()
    }
}

/// A random request for one of two stocks around their prices, and the model's reply.
fn request(rng: &mut Rng, models: &mut [Model; 2]) -> (String, String) {
    let at = rng.below(2);
    let (id, middle, it) = ([5, 1][at], [1000, 20][at], &mut models[at]);
    let number = 1 + rng.below(it.orders.len() + 2);
    let (size, price) = (1 + rng.below(9) as u64, middle - 5 + rng.below(11) as u64);
    match rng.below(12) {
        0 => {
            let rows = [models[0].show(5), models[1].show(1)].concat();
            ("show\n".to_owned(), rows + "\n")
        }
        1 => (format!("depth {id}\n"), it.depth()),
        2 | 3 => (format!("cancel {id} {number}\n"), it.cancel(number)),
        4..8 => (format!("buy {id} {size} {price}\n"), it.place(Side::Buy, size, price)),
        _ => (format!("sell {id} {size} {price}\n"), it.place(Side::Sell, size, price)),
    }
}

fn models() -> [Model; 2] {
    [1000, 20].map(|price| Model { price, ..Model::default() })
}

fn client(start: Duration, said: String) -> Client {
    Client { start, acts: vec![Act::Send(said.into_bytes())] }
}

#[test]
fn one_client_gets_the_replies_of_the_model() {
    let market = OrderMarket::new(Options::default());
    let case = |seed| {
        let (mut rng, mut models) = (Rng::new(seed), models());
        let said = (0..200).map(|_| request(&mut rng, &mut models).0).collect();
        let script = Script { clients: vec![client(Duration::ZERO, said)] };
        Case { script, faults: Faults::rough(seed), seed }
    };
    sim::check(&market, exchange, 40, case, |case, heard| {
        let (mut rng, mut models) = (Rng::new(case.seed), models());
        let owed: String = (0..200).map(|_| request(&mut rng, &mut models).1).collect();
        let found = String::from_utf8_lossy(&heard.clients[0].bytes);
        let same = owed.lines().zip(found.lines()).position(|(owed, found)| owed != found);
        match same {
            None if owed == found => Ok(()),
            at => Err(format!("line {at:?}: expected\n{owed}\nfound\n{found}")),
        }
    });
}

/// Shares that clients ordered are open, traded or taken back; each trade has one taker.
#[test]
fn shares_and_money_are_conserved() {
    let market = OrderMarket::new(Options::default());
    let last = RefCell::new(None);
    let fresh = || {
        let it = Rc::new(exchange());
        *last.borrow_mut() = Some(Rc::clone(&it));
        Handle(it)
    };
    let case = |seed| {
        let mut rng = Rng::new(seed);
        let clients = (0..5).map(|_| {
            let said = (0..60).map(|_| request(&mut rng, &mut models()).0).collect();
            client(Duration::from_micros(rng.below(2000) as u64), said)
        });
        Case { script: Script { clients: clients.collect() }, faults: Faults::rough(seed), seed }
    };
    sim::check(&market, fresh, 40, case, |case, heard| {
        let exchange = last.borrow().clone().expect("a run has a market");
        let (mut sent, mut back, mut taken, mut paid) = ([0, 0], 0, 0, 0);
        for client in &case.script.clients {
            for line in String::from_utf8_lossy(&client.said()).lines() {
                let size = || line.split(' ').nth(2).map_or(0, |size| size.parse::<u64>().unwrap());
                sent[0] += if line.starts_with("buy") { size() } else { 0 };
                sent[1] += if line.starts_with("sell") { size() } else { 0 };
            }
        }
        let replies = heard.clients.iter().flat_map(|it| it.bytes.split(|byte| *byte == b'\n'));
        for reply in replies.map(String::from_utf8_lossy) {
            let numbers: Vec<u64> =
                reply.split([' ', ',', '#']).filter_map(|word| word.parse().ok()).collect();
            match numbers[..] {
                [_, filled, value, _] if reply.starts_with('[') => {
                    (taken, paid) = (taken + filled, paid + value);
                }
                [_, open] if reply.starts_with("[cancel]") => back += open,
                _ => {}
            }
        }
        let sums = exchange.books().iter().map(stock::orders::OrderBook::summary);
        let mut owed = [0; 4];
        for sum in sums {
            let crossed = sum.best[1] != 0 && sum.best[0] >= sum.best[1];
            assert!(!crossed, "{sum:?}");
            owed[0] += sum.traded;
            owed[1] += sum.value;
            owed[2] += sum.open[0] + sum.traded;
            owed[3] += sum.open[1] + sum.traded;
        }
        let whole =
            [taken, paid, sent[0] + sent[1]] == [owed[0], owed[1], owed[2] + owed[3] + back];
        if whole { Ok(()) } else { Err(format!("{sent:?} {back} {taken} {paid}: {owed:?}")) }
    });
}

/// The market of a run, kept for checking.
struct Handle(Rc<Region<Exchange>>);

impl std::borrow::Borrow<Exchange> for Handle {
    fn borrow(&self) -> &Exchange {
        (*self.0).borrow()
    }
}

#[test]
fn the_laws_of_chunking() {
    let script =
        b"show\nbuy 5 3 1000\r\nsell 5 2 990\n\nbuy 1 8\norder 5 1\ncancel 5 1\ncancel 5 1\n\
        buy 9 1 1\nbuy 5 1 99999\ndepth 5\norder 5 9\n\xff\nhelp\nshow 2\nexit\nshow\n";
    for framing in [Framing::Line, Framing::Eof, Framing::Length, Framing::Fixed(8192)] {
        let market = OrderMarket::new(Options { framing, ..Options::default() });
        assert!(market.limits().input_max > script.len());
        sim::chunking(&market, exchange, script, &Faults::calm(), 20, <[u8]>::to_vec);
    }
}

#[test]
fn a_page_in_a_browser_cannot_place_an_order() {
    let (market, exchange) = (OrderMarket::new(Options::default()), exchange());
    let mut talk = sim::Talk::new(&market, &*exchange);
    let reply = talk.say("POST / HTTP/1.1\r\nHost: a\r\n\r\nbuy 5 3 1000\n");
    assert!(talk.closes() && reply.contains("found a request of HTTP"), "{reply}");
    assert_eq!(exchange.books()[0].summary().open, [0, 0]);
}
