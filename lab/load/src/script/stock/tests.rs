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

fn stock(framing: Framing, mix: (u32, u32, u32)) -> Stock {
    let mut stock = Stock::new(options(framing, mix), ROWS, 2).expect("two rows");
    stock.open(0);
    stock
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
    let mut stock = stock(framing, (20, 40, 40));
    let (mut requests, mut wire, mut left) = (Vec::new(), Vec::new(), [1000, 1000]);
    stock.ask(0, 20, &mut requests);
    let requests = String::from_utf8(requests).expect("ASCII");
    for request in requests.lines() {
        let shape = if request == "show" { Shape::Block } else { Shape::Line };
        wire.extend(framed(framing, answer(request, &mut left).as_bytes(), shape));
    }
    let (mut faults, mut done, mut held) = (Faults::default(), 0, Vec::new());
    for piece in wire.chunks(step) {
        held.extend_from_slice(piece);
        let replies = stock.receive(0, &held, &mut ReplyLog::new(&mut faults, None));
        held.drain(..replies.used);
        done += replies.done;
    }
    stock.close(0);
    let after = framed(framing, rows(&left).as_bytes(), Shape::Block);
    assert!(stock.audit_is_whole(&after));
    (stock.verdict(&after, &[]), faults, done)
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
        let mut stock = Stock::new(options, rows, 1).expect("two rows");
        let (mut faults, mut out) = (Faults::default(), Vec::new());
        stock.open(0);
        for (mix, reply) in [(0, sloppy[0]), (1, sloppy[1]), (2, sloppy[2])] {
            let weight = |it| u32::from(mix == it);
            stock.options.mix = Mix { show: weight(0), buy: weight(1), sell: weight(2) };
            stock.ask(0, 1, &mut out);
            let wire = framed_as_is(reply);
            let replies = stock.receive(0, &wire, &mut ReplyLog::new(&mut faults, None));
            assert_eq!((replies.done, replies.wrong), (1, u32::from(!is_lenient)), "{reply}");
        }
    }
}

fn framed_as_is(text: &str) -> Vec<u8> {
    let mut wire = text.as_bytes().to_vec();
    wire.resize(256, 0);
    wire
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
    let mut stock = stock(Framing::Line, (0, 1, 0));
    let mut out = Vec::new();
    stock.ask(0, 3, &mut out);
    let amounts: Vec<(usize, u64)> = String::from_utf8(out)
        .expect("ASCII")
        .lines()
        .map(|line| {
            let mut words = line.split(' ').skip(1);
            let id = words.next().expect("an id");
            (usize::from(id == "5"), words.next().and_then(|n| n.parse().ok()).expect("a number"))
        })
        .collect();
    stock.close(0);
    stock.open(0);
    let mut left = [1000, 1000];
    let verdict = |left: &[u64; 2]| {
        stock.verdict(&framed(Framing::Line, rows(left).as_bytes(), Shape::Block), &[])
    };
    assert!(verdict(&left).ok);
    amounts.iter().for_each(|&(place, amount)| left[place] -= amount);
    assert!(verdict(&left).ok, "{:?}", verdict(&left));
    left[0] -= 1;
    assert!(!verdict(&left).ok);
}

#[test]
fn requests_follow_the_seed_and_the_mix() {
    let ask = |seed, at| {
        let mut options = options(Framing::Line, (5, 50, 45));
        options.seed = seed;
        let mut stock = Stock::new(options, ROWS, 2).expect("two rows");
        let mut out = Vec::new();
        stock.ask(at, 10_000, &mut out);
        String::from_utf8(out).expect("ASCII")
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
    let mut stock = Stock::new(options.clone(), ROWS, 1).expect("5 is there");
    let mut out = Vec::new();
    stock.ask(0, 50, &mut out);
    assert!(out.split_inclusive(|&byte| byte == b'\n').all(|line| line.starts_with(b"buy 5 ")));
    options.ids = vec!["6".to_owned()];
    assert!(Stock::new(options, ROWS, 1).is_err());
}

/// One connection sends `buy` orders; `answer` decides each from the pieces left and the amount.
fn oracle(answer: impl Fn(u64, u64) -> bool) -> (u64, Check) {
    let mut stock = Stock::new(options(Framing::Line, (0, 1, 0)), ROWS, 1).expect("two rows");
    stock.open(0);
    let (mut faults, mut left) = (Faults::default(), [1000, 1000]);
    for _ in 0..1000 {
        let mut out = Vec::new();
        stock.ask(0, 1, &mut out);
        let request = String::from_utf8(out).expect("ASCII");
        let words: Vec<&str> = request.trim().split(' ').collect();
        let (place, amount) = (usize::from(words[1] == "5"), words[2].parse().expect("digits"));
        let success = answer(left[place], amount);
        let answer = if success { "[buy] success\n" } else { "Not enough left stocks\n" };
        left[place] = if success { left[place].saturating_sub(amount) } else { left[place] };
        stock.receive(0, answer.as_bytes(), &mut ReplyLog::new(&mut faults, None));
    }
    let check = stock.verdict(&framed(Framing::Line, rows(&left).as_bytes(), Shape::Block), &[]);
    (faults.of(FaultKind::WrongReply), check)
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
    let mut stock = stock(Framing::Line, (0, 1, 0));
    let (mut faults, mut out) = (Faults::default(), Vec::new());
    stock.ask(0, 1, &mut out);
    let replies =
        stock.receive(0, b"Not enough left stocks\n", &mut ReplyLog::new(&mut faults, None));
    assert_eq!((replies.done, replies.wrong), (1, 1), "{faults:?}");
    assert!(faults.list[0].example.contains("it was refused"), "{faults:?}");
}

#[test]
fn several_threads_have_one_verdict() {
    let script = |at: usize| {
        let mut script = stock(Framing::Line, (0, 1, 0));
        script.share();
        let (mut faults, mut out) = (Faults::default(), Vec::new());
        script.ask(at, 1, &mut out);
        script.receive(at, b"[buy] success\n", &mut ReplyLog::new(&mut faults, None));
        (script, String::from_utf8(out).expect("ASCII"))
    };
    let ((one, first), (two, second)) = (script(0), script(1));
    let mut left = [1000, 1000];
    for request in [first, second] {
        honest(request.trim(), &mut left);
    }
    let rows = framed(Framing::Line, rows(&left).as_bytes(), Shape::Block);
    assert!(!one.verdict(&rows, &[]).ok);
    assert!(one.verdict(&rows, &[two.totals()]).ok);
}

#[test]
fn kinds_are_told_apart_where_wanted() {
    let mut stock = stock(Framing::Line, (1, 1, 1));
    let (mut faults, mut notes, mut out) = (Faults::default(), Notes::default(), Vec::new());
    stock.ask(0, 30, &mut out);
    let mut left = [1000, 1000];
    let requests = String::from_utf8(out).expect("ASCII");
    let wire: Vec<u8> = requests
        .lines()
        .flat_map(|request| {
            let shape = if request == "show" { Shape::Block } else { Shape::Line };
            framed(Framing::Line, honest(request, &mut left).as_bytes(), shape)
        })
        .collect();
    stock.receive(0, &wire, &mut ReplyLog::new(&mut faults, Some(&mut notes)));
    let kinds = stock.kinds();
    let found: Vec<&str> = notes.list.iter().map(|note| &*kinds[usize::from(note.kind)]).collect();
    let asked: Vec<&str> = requests.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(found, asked);
    let bytes: usize = notes.list.iter().map(|note| note.bytes as usize).sum();
    assert_eq!(bytes, wire.len());
}
