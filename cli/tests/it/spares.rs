//! Processes start and end with the load, unnoticed by clients.

use crate::arms::Arm;
use crate::harness::{Client, PATIENCE, Plan, eventually};
use crate::market::book;

fn plan(arm: &Arm) -> Plan<'_> {
    arm.book(book(3, 1000))
}

#[track_caller]
fn check_serves(client: &mut Client) {
    assert_eq!(client.ask("sell 1 1"), "[sell] success");
}

/// Eight clients need more processes than there are. When all but one have left, processes end too,
/// and the remaining client notices nothing.
pub fn processes_follow_the_load(arm: &Arm) {
    let server = plan(arm).start();
    let before = server.children().len();
    assert!(before < server.posts, "{before} of {} at the start", server.posts);
    let mut inside: Vec<Client> = (0..arm.crowd(8)).map(|_| server.client()).collect();
    inside.iter_mut().for_each(check_serves);
    let grown = server.children().len();
    assert!(grown > before, "expected more than {before} processes for a crowd, found {grown}");
    let mut last = inside.pop().expect("a crowd");
    drop(inside);
    eventually("processes leave", PATIENCE, || server.children().len() < grown);
    check_serves(&mut last);
    server.stop().says(" retired, 0 recycled").says(" 0 workers replaced");
}

/// A process ends after a set number of connections; no connection is lost by that.
pub fn who_has_served_enough_is_replaced(arm: &Arm) {
    let server = plan(arm).with(&["--max-connections-per-child", "5"]).start();
    let mut staying = server.client();
    for _ in 0..40 {
        check_serves(&mut server.client());
    }
    check_serves(&mut staying);
    drop(staying);
    let stderr = server.stop().err;
    let recycled = stderr.split(" recycled").next().and_then(|text| text.rsplit(' ').next());
    let recycled: u32 = recycled.and_then(|word| word.parse().ok()).unwrap_or(0);
    assert!(recycled >= 3, "expected about 8 recycled, found {recycled}: {stderr}");
    assert!(stderr.contains(" 0 workers replaced"), "{stderr}");
}
