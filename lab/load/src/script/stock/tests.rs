//! The market's script against handmade replies, split in every way.
//!
//! The oracle is a correct market in a few lines; each wrong one differs from it in one reply. The
//! script must accept the first and object to every other, in every framing and at every cut.

use super::*;
use crate::faults::Faults;
use crate::script::Notes;

const ROWS: &[u8] = b"1 1000 1000\n5 1000 3700\n";
const FRAMINGS: [Framing; 4] = [Framing::Line, Framing::Fixed(256), Framing::Eof, Framing::Length];

fn options(framing: Framing, mix: (u32, u32, u32)) -> StockOptions {
    let mix = Mix { show: mix.0, buy: mix.1, sell: mix.2 };
    StockOptions { mix, ids: Vec::new(), amount_max: 10, framing, is_lenient: false, seed: 1 }
}

/// A client with an open connection, and the faults that it has found.
struct Client(Stock, Faults);

impl Client {
    fn new(framing: Framing, mix: (u32, u32, u32)) -> Self {
        Self::of(options(framing, mix), ROWS, 2)
    }

    fn of(options: StockOptions, rows: &[u8], connections: usize) -> Self {
        let mut stock = Stock::new(options, rows, connections).expect("two rows");
        stock.open(0);
        Self(stock, Faults::default())
    }

    fn asks(&mut self, at: usize, count: u32) -> String {
        let mut out = Vec::new();
        self.0.ask(at, count, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    fn hears(&mut self, at: usize, bytes: &[u8]) -> Replies {
        self.0.receive(at, bytes, &mut ReplyLog::new(&mut self.1, None))
    }

    fn verdict(&self, left: &[u64; 2], others: &[Vec<u64>]) -> Check {
        self.0.verdict(&framed(Framing::Line, rows(left).as_bytes(), Shape::Block), others)
    }
}

fn framed(framing: Framing, text: &[u8], shape: Shape) -> Vec<u8> {
    let mut wire = Vec::new();
    framing.encode(text, shape, &mut wire).expect("it fits");
    wire
}

/// Sends 20 requests, lets `answer` make each reply, feeds them in steps of `step` bytes, and
/// returns the script's verdict and faults.
fn talk(
    framing: Framing,
    step: usize,
    mut answer: impl FnMut(&str, &mut [u64; 2]) -> String,
) -> (Check, Faults, u32) {
    let (mut client, mut left) = (Client::new(framing, (20, 40, 40)), [1000, 1000]);
    let wire = answers(framing, &client.asks(0, 20), |request| answer(request, &mut left));
    let (mut done, mut held) = (0, Vec::new());
    for piece in wire.chunks(step) {
        held.extend_from_slice(piece);
        let replies = client.hears(0, &held);
        held.drain(..replies.used);
        done += replies.done;
    }
    let Client(mut stock, faults) = client;
    stock.close(0);
    let after = framed(framing, rows(&left).as_bytes(), Shape::Block);
    assert!(stock.audit_is_whole(&after));
    (stock.verdict(&after, &[]), faults, done)
}

/// The answers to these requests, one after the other.
fn answers(framing: Framing, asked: &str, mut answer: impl FnMut(&str) -> String) -> Vec<u8> {
    let one = |request: &str| {
        let shape = if request == "show" { Shape::Block } else { Shape::Line };
        framed(framing, answer(request).as_bytes(), shape)
    };
    asked.lines().flat_map(one).collect()
}

fn rows(left: &[u64; 2]) -> String {
    format!("1 {} 1000\n5 {} 3700\n", left[0], left[1])
}

/// The answer of a correct server.
fn honest(request: &str, left: &mut [u64; 2]) -> String {
    let words: Vec<&str> = request.split(' ').collect();
    let [command, id, amount] = words[..] else { return rows(left) };
    let (place, amount): (_, u64) = (usize::from(id == "5"), amount.parse().expect("digits"));
    match command {
        "buy" if left[place] < amount => return "Not enough left stocks\n".to_owned(),
        "buy" => left[place] -= amount,
        _ => left[place] += amount,
    }
    format!("[{command}] success\n")
}

#[test]
fn right_replies_are_right_however_they_are_split() {
    for framing in FRAMINGS {
        for step in 1..60 {
            let (check, faults, done) = talk(framing, step, honest);
            assert!(check.ok && faults.is_empty(), "{framing} {step}: {check:?} {faults:?}");
            assert_eq!(done, 20, "{framing} {step}");
            assert!(check.detail.contains("balance exactly"), "{}", check.detail);
        }
    }
}

#[test]
fn every_wrong_reply_is_found() {
    type Liar = fn(&str, &mut [u64; 2]) -> String;
    let liars: [(&str, Liar); 4] = [
        ("the other command", |request, left| {
            let answer = honest(request, left);
            answer.replace("[buy]", "[x]").replace("[sell]", "[buy]").replace("[x]", "[sell]")
        }),
        ("a sale refused", |request, left| {
            let answer = honest(request, left);
            if answer.starts_with("[sell]") {
                "Not enough left stocks\n".to_owned()
            } else {
                answer
            }
        }),
        ("a price", |request, left| honest(request, left).replace("3700", "3701")),
        ("a missing row", |request, left| honest(request, left).replace("1 1000 1000\n", "")),
    ];
    for framing in FRAMINGS {
        for (name, liar) in liars {
            for step in [1, 7, 10_000] {
                let (check, faults, done) = talk(framing, step, liar);
                assert!(!check.ok, "{name}: {check:?}");
                assert!(faults.of(FaultKind::WrongReply) > 0, "{name}: {faults:?}");
                assert_eq!((done, faults.list.len()), (20, 1), "{name}: {faults:?}");
            }
        }
    }
}

/// Servers of a course that answer in their own way.
#[test]
fn lenient_reading_takes_what_a_person_takes() {
    let mut options = options(Framing::Fixed(256), (20, 40, 40));
    options.is_lenient = true;
    let sloppy = [" 1 1000 1000 \r\n5 1000 3700\n\n", "[Buy] success", "\n[SELL] Success\n"];
    for is_lenient in [true, false] {
        let rows = if is_lenient { sloppy[0].as_bytes() } else { ROWS };
        let options = StockOptions { is_lenient, ..options.clone() };
        let mut client = Client::of(options, rows, 1);
        for (mix, reply) in sloppy.iter().enumerate() {
            let weight = |it| u32::from(mix == it);
            client.0.options.mix = Mix { show: weight(0), buy: weight(1), sell: weight(2) };
            client.asks(0, 1);
            let mut wire = reply.as_bytes().to_vec();
            wire.resize(256, 0);
            let replies = client.hears(0, &wire);
            assert_eq!((replies.done, replies.wrong), (1, u32::from(!is_lenient)), "{reply}");
        }
    }
}

#[test]
fn a_forgotten_order_unbalances_the_books() {
    let mut first = true;
    let (check, faults, _) = talk(Framing::Line, 64, |request, left| {
        let before = *left;
        let answer = honest(request, left);
        if std::mem::take(&mut first) || answer.starts_with("[buy]") {
            *left = before;
        }
        answer
    });
    assert!(!check.ok && faults.is_empty(), "{check:?} {faults:?}");
    assert!(
        check.detail.contains("expected") && check.detail.contains("found"),
        "{}",
        check.detail
    );
}

#[test]
fn a_reply_too_many_is_found() {
    let (check, faults, done) = talk(Framing::Line, 10_000, |request, left| {
        let answer = honest(request, left);
        if answer.starts_with("[sell]") { answer.repeat(2) } else { answer }
    });
    assert!(!faults.is_empty() && done == 20, "{check:?} {faults:?}");
}

#[test]
fn a_lost_connection_leaves_bounds() {
    let mut client = Client::new(Framing::Line, (0, 1, 0));
    let asked = client.asks(0, 3);
    client.0.close(0);
    client.0.open(0);
    let mut left = [1000, 1000];
    assert!(client.verdict(&left, &[]).ok);
    asked.lines().for_each(|request| drop(honest(request, &mut left)));
    assert!(client.verdict(&left, &[]).ok, "{:?}", client.verdict(&left, &[]));
    left[0] -= 1;
    assert!(!client.verdict(&left, &[]).ok);
}

#[test]
fn requests_follow_the_seed_and_the_mix() {
    let ask = |seed, at| {
        let mut options = options(Framing::Line, (5, 50, 45));
        options.seed = seed;
        Client::of(options, ROWS, 2).asks(at, 10_000)
    };
    let text = ask(7, 0);
    assert_eq!(text, ask(7, 0));
    assert!(text != ask(8, 0) && text != ask(7, 1));
    let count = |command| text.lines().filter(|line| line.starts_with(command)).count();
    assert_eq!(count("show") + count("buy ") + count("sell "), 10_000);
    for (command, expected) in [("show", 500), ("buy ", 5000), ("sell ", 4500)] {
        // Six standard deviations of the widest of the three.
        assert!(count(command).abs_diff(expected) < 300, "{command}: {}", count(command));
    }
    for amount in 1..=10 {
        let ending = format!(" {amount}");
        assert!(text.lines().filter(|line| line.ends_with(&ending)).count() > 500, "{amount}");
    }
}

#[test]
fn ids_are_the_markets_own() {
    let mut options = options(Framing::Line, (0, 1, 0));
    options.ids = vec!["5".to_owned()];
    let asked = Client::of(options.clone(), ROWS, 1).asks(0, 50);
    assert!(asked.lines().all(|line| line.starts_with("buy 5 ")), "{asked}");
    options.ids = vec!["6".to_owned()];
    assert!(Stock::new(options, ROWS, 1).is_err());
}

/// One connection sends `buy` orders; `answer` decides each from the pieces left and the amount.
fn oracle(answer: impl Fn(u64, u64) -> bool) -> (u64, Check) {
    let mut client = Client::of(options(Framing::Line, (0, 1, 0)), ROWS, 1);
    let mut left = [1000, 1000];
    for _ in 0..1000 {
        let request = client.asks(0, 1);
        let words: Vec<&str> = request.trim().split(' ').collect();
        let (place, amount) = (usize::from(words[1] == "5"), words[2].parse().expect("digits"));
        let success = answer(left[place], amount);
        let answer = if success { "[buy] success\n" } else { "Not enough left stocks\n" };
        left[place] = if success { left[place].saturating_sub(amount) } else { left[place] };
        client.hears(0, answer.as_bytes());
    }
    (client.1.of(FaultKind::WrongReply), client.verdict(&left, &[]))
}

#[test]
fn with_one_connection_the_seed_says_every_reply() {
    let (wrong, check) = oracle(|left, amount| left >= amount);
    assert!(wrong == 0 && check.ok, "{wrong} {check:?}");
    // A refusal of the last pieces is possible among several clients; alone it is wrong, and so is
    // overselling.
    assert!(oracle(|left, amount| left > amount).0 > 0);
    assert!(oracle(|_, _| true).0 > 0);
}

#[test]
fn a_refusal_must_be_possible_even_in_a_crowd() {
    let mut client = Client::new(Framing::Line, (0, 1, 0));
    client.asks(0, 1);
    let replies = client.hears(0, b"Not enough left stocks\n");
    assert_eq!((replies.done, replies.wrong), (1, 1), "{:?}", client.1);
    assert!(client.1.list[0].example.contains("it was refused"), "{:?}", client.1);
}

#[test]
fn several_threads_have_one_verdict() {
    let script = |at: usize| {
        let mut client = Client::new(Framing::Line, (0, 1, 0));
        client.0.share();
        let asked = client.asks(at, 1);
        client.hears(at, b"[buy] success\n");
        (client, asked)
    };
    let ((one, first), (two, second)) = (script(0), script(1));
    let mut left = [1000, 1000];
    for request in [first, second] {
        honest(request.trim(), &mut left);
    }
    assert!(!one.verdict(&left, &[]).ok);
    assert!(one.verdict(&left, &[two.0.totals()]).ok);
}

#[test]
fn kinds_are_told_apart_where_wanted() {
    let (mut client, mut notes) = (Client::new(Framing::Line, (1, 1, 1)), Notes::default());
    let requests = client.asks(0, 30);
    let mut left = [1000, 1000];
    let wire = answers(Framing::Line, &requests, |request| honest(request, &mut left));
    let Client(mut stock, mut faults) = client;
    stock.receive(0, &wire, &mut ReplyLog::new(&mut faults, Some(&mut notes)));
    let kinds = stock.kinds();
    let found: Vec<&str> = notes.list.iter().map(|note| &*kinds[usize::from(note.kind)]).collect();
    let asked: Vec<&str> = requests.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(found, asked);
    let bytes: usize = notes.list.iter().map(|note| note.bytes as usize).sum();
    assert_eq!(bytes, wire.len());
}
