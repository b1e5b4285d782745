//! Random conversations with the market, compared with a model that is too simple to be wrong: a
//! list of rows. Every framing, lock, index and order of `show` takes part, and the network cuts
//! and delays. Each reply must be the model's, and so must the market's file at the end.

use ::stock::book::{Entry, LEFT_MAX, push_line};
use ::stock::{Index, LINE_MAX, Lock, Market, Options, Order, Stock};
use memory::Region;
use seam::Limits;
use sim::{Faults, Script};
use stats::Rng;
use std::collections::VecDeque;
use wire::framing::{Decoder, Framing, Shape};

const REQUESTS: u32 = 200;

#[test]
fn every_reply_and_the_file_are_the_models() {
    for seed in sim::seeds(400) {
        converse(seed);
    }
}

fn converse(seed: u64) {
    let rng = &mut Rng::new(seed);
    let options = options(rng);
    let index = index(rng, options);
    let at = &format!("seed {seed}, index {index}");
    let mut model = Model::new(rng, options);
    let market = Region::<Market>::alone(&Market::seed(index, &model.file()));
    let stock = Stock::new(options);
    stock.fits(&market).expect(at);

    let mut sent = Vec::new();
    let mut expected = VecDeque::new();
    for _ in 0..REQUESTS {
        let line = request(rng, &model);
        sent.extend_from_slice(&line);
        let (answers, goes_on) = model.answer(&line);
        expected.extend(answers);
        if !goes_on {
            break;
        }
    }
    let rough = Faults::rough(seed);
    // Replies may be a megabyte in all, too much for a client that reads byte by byte.
    let faults = Faults { window: rough.window.max(1500), sip: rough.sip.max(1500), ..rough };
    let heard = sim::run(&stock, &*market, &Script::saying(&sent), &faults, seed);
    heard.lawful().unwrap_or_else(|why| panic!("{at}: {why}"));
    compare(options.framing, &heard.only().bytes, expected, at);

    let mut file = Vec::new();
    market.render_by_row(Order::File, &mut file);
    assert_eq!(String::from_utf8_lossy(&file), String::from_utf8_lossy(&model.file()), "{at}");
}

fn options(rng: &mut Rng) -> Options {
    let defaults = Options::default();
    let output_high = 1 + rng.below(20_000);
    Options {
        framing: *rng.pick(&[Framing::Line, Framing::Eof, Framing::Length, Framing::Fixed(8192)]),
        order: *rng.pick(&Order::ALL),
        lock: *rng.pick(&Lock::ALL),
        work: rng.below(3) as u64,
        limits: Limits { output_high, output_low: rng.below(output_high), ..defaults.limits },
        ..defaults
    }
}

/// Any index, unless `show` lists a tree: then only those that list the tree of the file, as the
/// model does.
fn index(rng: &mut Rng, options: Options) -> Index {
    match options.order {
        Order::File | Order::Sorted => *rng.pick(&Index::ALL),
        Order::PreOrder => *rng.pick(&[Index::Hash, Index::LevelOrder, Index::Sorted]),
    }
}

/// One line with its terminator: mostly orders, sometimes anything.
fn request(rng: &mut Rng, model: &Model) -> Vec<u8> {
    const JUNK: &[u8] = b"\
        | |show 1|buy|buy 1|buy 1 2 3|sell 1 -5|buy 1 0|slel 1 2|buy 2147483647 1|\
        buy 1 2147483648|sell 99999999999999999999 1|\0\xff\xfe|BUY 1 1|buy\t1 x|help|\
        sell 1 2147483647|show\0|\r|buy one 2|sell 1 +5|buy 1 1\0|exit now|GET /index.html";
    let junk: Vec<&[u8]> = JUNK.split(|byte| *byte == b'|').collect();
    let id = if rng.once_in(20) { 1 << 30 } else { rng.pick(&model.rows).id };
    let most = if rng.once_in(10) { 1 << 30 } else { 10 };
    let count = 1 + rng.below(most);
    let blank = if rng.once_in(10) { "  \t" } else { " " };
    let mut line = match rng.below(40) {
        0..15 => format!("buy{blank}{id} {count}").into_bytes(),
        15..30 => format!("sell {id}{blank}{count}").into_bytes(),
        30..35 => b"show".to_vec(),
        35..39 => rng.pick(&junk).to_vec(),
        _ if rng.once_in(20) => vec![b'x'; LINE_MAX + rng.below(3) - 1],
        _ if rng.once_in(20) => b"exit".to_vec(),
        _ => (0..rng.below(30)).map(|_| rng.roll() as u8 | 0x80).collect(),
    };
    line.extend_from_slice(if rng.once_in(20) { b"\r\n" } else { b"\n" });
    line
}

enum Answer {
    Exactly(Vec<u8>, Shape),
    /// One line that begins with `error: `.
    Error(Shape),
    Help,
}

struct Model {
    rows: Vec<Entry>,
    options: Options,
}

impl Model {
    fn new(rng: &mut Rng, options: Options) -> Model {
        // Sometimes few enough for the course's blocks, sometimes enough for shared replies.
        let most = if matches!(options.framing, Framing::Fixed(_)) { 100 } else { 200 };
        let mut rows: Vec<Entry> = Vec::new();
        for _ in 0..1 + rng.below(most) {
            let id = 1 + rng.below(2 * most) as u32;
            if rows.iter().all(|row| row.id != id) {
                let left = if rng.once_in(50) { LEFT_MAX } else { rng.below(100) as u64 };
                rows.push(Entry { id, left, price: rng.below(100_000) as u32 });
            }
        }
        Model { rows, options }
    }

    fn file(&self) -> Vec<u8> {
        listing(&self.rows)
    }

    /// The reply to a line, if any, and whether the conversation continues.
    fn answer(&mut self, line: &[u8]) -> (Option<Answer>, bool) {
        if line.len() > LINE_MAX {
            return (Some(Answer::Error(Shape::Line)), false);
        }
        let text: String = line.iter().map(|byte| char::from(*byte)).collect();
        let words: Vec<&str> =
            text.split([' ', '\t', '\r', '\n']).filter(|it| !it.is_empty()).collect();
        let number =
            |word: &str| word.parse::<i32>().ok().filter(|n| *n > 0 && !word.starts_with('+'));
        let answer = match words[..] {
            ["show"] => Answer::Exactly(self.listed(), Shape::Block),
            ["help"] => Answer::Help,
            ["show" | "help", ..] => Answer::Error(Shape::Block),
            ["exit"] if self.options.framing == Framing::Line => return (None, false),
            ["exit"] => {
                return (Some(Answer::Exactly(b"exit\n".to_vec(), Shape::Line)), false);
            }
            [side @ ("buy" | "sell"), id, count] => match (number(id), number(count)) {
                (Some(id), Some(count)) => self.order(side, id as u32, count as u64),
                _ => Answer::Error(Shape::Line),
            },
            _ => Answer::Error(Shape::Line),
        };
        (Some(answer), true)
    }

    fn order(&mut self, side: &str, id: u32, count: u64) -> Answer {
        let exactly = |text: &str| Answer::Exactly(text.as_bytes().to_vec(), Shape::Line);
        let Some(row) = self.rows.iter_mut().find(|row| row.id == id) else {
            return Answer::Error(Shape::Line);
        };
        if side == "sell" {
            if row.left + count > LEFT_MAX {
                return Answer::Error(Shape::Line);
            }
            row.left += count;
            return exactly("[sell] success\n");
        }
        if row.left < count {
            return exactly("Not enough left stocks\n");
        }
        row.left -= count;
        exactly("[buy] success\n")
    }

    fn listed(&self) -> Vec<u8> {
        match self.options.order {
            Order::File => self.file(),
            Order::Sorted => {
                let mut rows = self.rows.clone();
                rows.sort_by_key(|row| row.id);
                listing(&rows)
            }
            Order::PreOrder => {
                let mut rows = Vec::new();
                self.below(0, &mut rows);
                listing(&rows)
            }
        }
    }

    fn below(&self, node: usize, rows: &mut Vec<Entry>) {
        if let Some(row) = self.rows.get(node) {
            rows.push(*row);
            self.below(2 * node + 1, rows);
            self.below(2 * node + 2, rows);
        }
    }
}

fn listing(rows: &[Entry]) -> Vec<u8> {
    let mut text = Vec::new();
    rows.iter().for_each(|row| push_line(&mut text, *row));
    text
}

fn compare(framing: Framing, received: &[u8], expected: VecDeque<Answer>, at: &str) {
    let mut decoder = Decoder::new(framing);
    let mut rest = received;
    for (number, answer) in expected.iter().enumerate() {
        let shape = match answer {
            Answer::Exactly(_, shape) | Answer::Error(shape) => *shape,
            Answer::Help => Shape::Block,
        };
        let reply = decoder.next(rest, shape);
        let reply = reply.unwrap_or_else(|| panic!("{at}: reply {number} is missing"));
        let text = String::from_utf8_lossy(reply.text);
        match answer {
            Answer::Exactly(exact, _) => {
                assert_eq!(text, String::from_utf8_lossy(exact), "{at}: reply {number}");
            }
            Answer::Error(_) => {
                let one_line = text.ends_with('\n') && text.lines().count() == 1;
                assert!(one_line && text.starts_with("error: "), "{at}: reply {number}: {text}");
            }
            Answer::Help => assert!(text.contains("buy ID N"), "{at}: reply {number}: {text}"),
        }
        rest = &rest[reply.used..];
    }
    assert!(rest.is_empty(), "{at}: {} bytes after the last reply", rest.len());
}
