//! The requests of a crowd, computed from the process ids that it printed.

use std::collections::BTreeMap;

use crate::rand::Rand;

/// Orders of each child and the traded stocks: the course's defines.
const ORDERS: usize = 10;
const STOCKS: u32 = 10;
const SHARES: u32 = 10;

/// The book that the crowd trades with: enough of each stock for every buy to succeed.
pub fn book() -> Vec<(u32, i64)> {
    // Not in the order of the ids, to show that the order of the file stays.
    [7, 2, 9, 4, 10, 1, 6, 3, 8, 5].map(|id| (id, 1_000_000 + i64::from(id))).into()
}

/// A book as a file.
pub fn file(book: &[(u32, i64)]) -> String {
    book.iter().map(|(id, left)| format!("{id} {left} {}\n", id * 100)).collect()
}

/// The requests of the child with this number: `option`, then `list_num`, then `num`.
pub fn requests(seed: u32) -> Vec<String> {
    let mut rand = Rand::seeded(seed);
    let mut request = || match rand.draw() % 3 {
        0 => "show\n".to_owned(),
        option => {
            let list_num = rand.draw() % STOCKS + 1;
            let num = rand.draw() % SHARES + 1;
            let verb = if option == 1 { "buy" } else { "sell" };
            format!("{verb} {list_num} {num}\n")
        }
    };
    (0..ORDERS).map(|_| request()).collect()
}

/// Compares the output of a crowd with the requests that its children must have sent, and applies
/// them to the book. Every child is in `seeds` if they are known beforehand.
pub fn settle(out: &str, children: usize, book: &mut [(u32, i64)]) -> Result<(), String> {
    let number = |line: &str| line.strip_prefix("child ")?.parse().ok();
    let seeds: Vec<u32> = out.lines().filter_map(number).collect();
    if seeds.len() != children {
        return Err(format!("expected {children} children, found {}", seeds.len()));
    }
    let sent: Vec<String> = seeds.iter().flat_map(|&seed| requests(seed)).collect();
    if let Some(echo) = out.lines().find(|line| sent.contains(&format!("{line}\n"))) {
        return Err(format!("a request is printed as if it were a reply: {echo}"));
    }
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rows = 0;
    for request in &sent {
        let words: Vec<&str> = request.split_whitespace().collect();
        let [verb, id, count] = words[..] else {
            rows += book.len();
            continue;
        };
        let id: u32 = id.parse().expect("a number of ours");
        let count: i64 = count.parse().expect("a number of ours");
        let (reply, change) = match verb {
            "buy" => ("[buy] success", -count),
            _ => ("[sell] success", count),
        };
        *expected.entry(reply).or_default() += 1;
        let row = book.iter_mut().find(|row| row.0 == id).expect("every stock is in the book");
        row.1 += change;
    }
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found_rows = 0;
    for line in out.lines().filter(|line| number(line).is_none()) {
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            found_rows += 1;
        } else {
            *found.entry(line).or_default() += 1;
        }
    }
    if found != expected || found_rows != rows {
        return Err(format!(
            "expected {expected:?} and {rows} rows of shows, found {found:?} and {found_rows}"
        ));
    }
    Ok(())
}

#[test]
fn an_echo_a_missing_reply_and_a_wrong_one_are_objected_to() {
    let seed = 4711;
    let mut good = format!("child {seed}\n");
    for request in requests(seed) {
        good += &match request.split(' ').next().expect("a word") {
            "buy" => "[buy] success\n".to_owned(),
            "sell" => "[sell] success\n".to_owned(),
            _ => file(&book()),
        };
    }
    let check = |out: &str, children| settle(out, children, &mut book());
    assert_eq!(check(&good, 1), Ok(()));
    assert!(check(&good, 2).is_err_and(|why| why.contains("expected 2 children")));
    let echo = good.replacen("[buy] success\n", "", 1)
        + requests(seed).iter().find(|line| line.starts_with("buy")).expect("a buy");
    assert!(check(&echo, 1).is_err_and(|why| why.contains("as if it were a reply")));
    let short = good.replacen("[sell] success\n", "", 1);
    assert!(check(&short, 1).is_err_and(|why| why.contains("expected {")));
    let wrong = good.replacen("[buy] success", "Not enough left stocks", 1);
    assert!(check(&wrong, 1).is_err_and(|why| why.contains("Not enough")));
}
