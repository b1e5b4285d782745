//! `ab` of two commands, one of which costs more.

use lab::verdict::Summary;
use testkit::{has, run};

use crate::Room;
use crate::ab::serve;

#[test]
fn a_costlier_command_fails_the_gate_and_its_protocol_is_found_out() {
    if !has("strace") {
        return;
    }
    let room = Room::alone();
    // A traced server costs several times as much, however busy the machine is.
    let old = serve("stock", "epoll") + " --data {dir}/stock.txt";
    let new = format!("strace -f -o /dev/null {old}");
    let words = ["ab", &old, &new, "--budget", "6s", "--fail-if", "new cpu > 1.2x old", "--json"];
    let ended = run(&mut room.command(&words)).exits(99).says("old speaks the stock market");
    let found: Summary = serde_json::from_str(&ended.out).expect("one JSON document");
    assert!(found.sentence.starts_with("`new` "), "{}", found.sentence);
    let costs_more = ["more CPU time per request", "the CPU time per request"];
    assert!(costs_more.iter().any(|words| found.sentence.contains(*words)), "{}", found.sentence);
    assert!(room.text("report.html").contains("old"));
}
