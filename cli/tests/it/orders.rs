//! The market of orders on every engine, under our own generator, which balances its books.

use std::process::Command;

use serde_json::Value;
use testkit::Process;

use crate::arms::{Arm, EPOLL};
use crate::crash::{KILLS_MIN, kill_workers};
use crate::harness::{BINARY, PATIENCE, Plan, Server, ms};

fn serve(arm: &Arm, more: &[&str]) -> Server {
    Plan::new(arm, "stock").with(&["--market", "orders"]).with(more).start()
}

/// Starts the generator.
fn load(server: &Server, clients: usize, more: &[&str]) -> Process {
    let mut command = Command::new(BINARY);
    command.args(["load", &format!("stock://{}", server.address), "--json", "--depth", "4"]);
    command.args(["--closed", &clients.to_string()]).args(more);
    Process::start(&mut command)
}

/// The check of a run.
#[track_caller]
fn check(out: &str) -> (bool, String) {
    let report: Value = serde_json::from_str(out).unwrap_or_else(|bad| panic!("{bad}: {out}"));
    let check = &report["check"];
    assert_eq!(check["kind"], "conservation", "{report}");
    let detail = check["detail"].as_str().expect("words").to_owned();
    (check["ok"] == true, detail)
}

/// Bought, sold, open and taken back shares balance for each stock, and so does the money.
pub fn clients_trade_with_each_other(arm: &Arm) {
    let server = serve(arm, &[]);
    let ended = load(&server, arm.crowd(4), &["--for", "200ms"]).end(PATIENCE).loaded();
    let (is_right, detail) = check(&ended.out);
    assert!(is_right && detail.contains("10 order books balance exactly"), "{detail}");
    assert!(!detail.contains(": 0 shares traded"), "{detail}");
    server.stop();
}

/// An order of a killed worker is whole or was never there.
pub fn workers_killed_in_the_middle_of_orders(arm: &Arm) {
    let server = serve(arm, &["--work", "2000"]);
    let mut clients = load(&server, arm.crowd(4), &["--for", "2s"]);
    // The generator reads the book first, and ends if that fails.
    std::thread::sleep(ms(300));
    assert!(kill_workers(&server, 7).count >= KILLS_MIN);
    let ended = clients.end(PATIENCE);
    assert!(!ended.out.is_empty(), "{:?}: {}", ended.code, ended.err);
    let (is_right, detail) = check(&ended.out);
    assert!(is_right && detail.contains("10 order books balance"), "{detail}: {}", ended.err);
    server.stop().says("was killed by");
}

#[test]
fn a_session_of_two_clients() {
    let server = serve(&EPOLL, &["--work", "5us"]);
    let [mut seller, mut buyer] = [(); 2].map(|()| server.client());
    assert_eq!(seller.ask("sell 2 10 214510"), "[sell] #1 filled 0 for 0, open 10");
    assert_eq!(buyer.ask("buy 2 4 214600"), "[buy] #2 filled 4 for 858040, open 0");
    assert_eq!(seller.ask("order 2 1"), "#1 sell 10 at 214510: filled 4, open 6");
    assert_eq!(seller.ask("cancel 2 1"), "[cancel] #1 took back 6");
    assert_eq!(seller.ask("order 2 1"), "#1 sell 10 at 214510: filled 4, taken back 6");
    assert_eq!(seller.ask("cancel 2 1"), "#1 is not open");
    buyer.send("depth 2\nshow\n");
    assert_eq!(
        (buyer.block().as_str(), buyer.block().lines().nth(1)),
        ("", Some("2 0 0 214510 0 0 4 858040"))
    );
    server.stop().says("steps, here about");
}

#[test]
fn flags_of_the_other_market_are_refused() {
    let refused = |more: &[&str], words: &str| {
        let plan = Plan::new(&EPOLL, "stock").with(&["--market", "orders"]).with(more);
        plan.fail().exits(2).says(words);
    };
    refused(&["--index", "bst"], "--index belongs to --market shares");
    refused(&["--framing", "fixed:1024"], "expected room for replies of 1280 bytes");
    refused(&["--work", "2s"], "expected a time to 1s such as 20us");
}
