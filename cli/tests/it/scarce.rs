//! Too many connections for the available descriptors or for the configured limit. Accepted clients
//! are served, others wait, no loop spins, and service resumes as soon as there is room.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Resource;
use sys::process::Pid;

use crate::arms::Arm;
use crate::harness::{self, Client, Family, Folder, PATIENCE, Plan, eventually, ms, numbers};
use crate::market::book;

/// CPU time that a server without descriptors may use in half a second.
const CPU_MAX: Duration = ms(200);

/// The most descriptors of the runtime in any architecture.
const DESCRIPTORS_MAX: usize = 20;
/// The descriptors that each of several workers may add: a loop's poller, bell and listener; the
/// two ends of a child's channel.
const DESCRIPTORS_EACH: usize = 3;
/// A runtime of tokio has two more than a loop: of its registry, and to wake its reactor.
const RUNTIME_DESCRIPTORS: usize = 2;

fn serve(arm: &Arm) -> Plan<'_> {
    arm.book(book(3, 1_000_000))
}

/// Fails if the server's processes are busy for the next half second.
#[track_caller]
fn check_rest(family: &Family) {
    let before = family.cpu();
    std::thread::sleep(ms(500));
    let used = family.cpu() - before;
    assert!(used < CPU_MAX, "{used:?} of CPU without descriptors");
}

#[track_caller]
fn check_serves(client: &mut Client) {
    assert_eq!(client.ask("buy 1 1"), "[buy] success");
}

/// A loop with 40 descriptors meets 200 clients.
pub fn descriptors_run_out(arm: &Arm) {
    let shell = ["sh", "-c", "ulimit -n 40; exec \"$0\" \"$@\""];
    let mut server = serve(arm).behind(&shell).start();
    let mut early: Vec<Client> = (0..3).map(|_| server.client()).collect();
    early.iter_mut().for_each(check_serves);
    let crowd: Vec<Client> = (0..200).map(|_| server.client()).collect();
    std::thread::sleep(ms(100));
    early.iter_mut().for_each(check_serves);
    check_rest(&server.family());
    early.iter_mut().for_each(check_serves);
    assert!(server.is_running());
    drop(crowd);
    check_serves(&mut server.client());
    drop(early);
    server.settles();
    server.stop().says("0 workers replaced");
}

/// Silent connections take what descriptors they can; files are served next to them all the same.
pub fn files_have_descriptors(arm: &Arm) {
    let (_folder, file) = Folder::with("a.txt", "0123456789");
    let root = file.parent().and_then(|root| root.to_str()).expect("a temporary path is text");
    let shell = ["sh", "-c", "ulimit -n 128; exec \"$0\" \"$@\""];
    let server = Plan::new(arm, "http").with(&[root]).behind(&shell).start();
    let mut early = server.client();
    let ask = |client: &mut Client| {
        client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = std::iter::repeat_with(|| client.line()).take_while(|line| line.len() > 1);
        let head: Vec<String> = head.collect();
        assert!(head[0].starts_with("HTTP/1.1 200 OK"), "{head:?}");
        assert_eq!(client.exact(10), b"0123456789");
    };
    ask(&mut early);
    let crowd: Vec<Client> = (0..300).map(|_| server.client()).collect();
    std::thread::sleep(ms(100));
    (0..50).for_each(|_| ask(&mut early));
    drop(crowd);
    drop(early);
    server.stop();
}

/// Sets the limit on descriptors of each process of the server to the result of `most`.
fn limit(family: &Family, most: impl Fn(Pid) -> Option<u64>) {
    // The server has raised its soft limit to the hard one, which is ours too.
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    for &pid in &family.0 {
        harness::limit(pid, Resource::Nofile, most(pid).or(maximum), maximum);
    }
}

/// The number that the next descriptor of a process would have.
fn lowest_free(pid: Pid) -> Option<u64> {
    let taken: BTreeSet<u64> = numbers(pid).into_iter().collect();
    (0..).find(|number| !taken.contains(number))
}

/// The runtime itself needs few descriptors, so that nearly all belong to clients.
pub fn few_descriptors_at_rest(arm: &Arm) {
    let server = serve(arm).start();
    let each = if server.posts > 1 { DESCRIPTORS_EACH * server.posts } else { 0 };
    let runtimes = if arm.is_runtime() { RUNTIME_DESCRIPTORS * server.posts } else { 0 };
    let most = DESCRIPTORS_MAX + each + runtimes;
    for pid in server.family().0 {
        let found = numbers(pid).len();
        assert!(found <= most, "expected at most {most} descriptors, found {found}");
    }
}

/// Workers with one connection each never need many descriptors, so the test removes theirs.
pub fn descriptors_are_taken_away(arm: &Arm) {
    let mut server = serve(arm).start();
    let family = server.family();
    let mut inside: Vec<Client> = (1..arm.crowd(3)).map(|_| server.client()).collect();
    inside.iter_mut().for_each(check_serves);
    limit(&family, lowest_free);
    // A waiting accept already has its descriptor; it rechecks every 250 ms.
    std::thread::sleep(ms(400));
    let mut outside: Vec<Client> = (0..10).map(|_| server.client()).collect();
    for client in &mut outside {
        client.send("buy 1 1\n");
    }
    assert!(outside[0].is_silent_for(ms(200)), "served without a descriptor");
    check_rest(&family);
    inside.iter_mut().for_each(check_serves);
    assert!(server.is_running());
    limit(&family, |_| None);
    drop(inside);
    for mut client in outside {
        assert_eq!(client.line(), "[buy] success");
    }
    server.settles();
    server.stop().says("0 workers replaced");
}

/// A limit of sixteen: the seventeenth waits until an eighth of the room is free.
pub fn the_limit_opens_an_eighth_below(arm: &Arm) {
    let server = serve(arm).with(&["--max-connections", "16"]).workers(1).start();
    let mut inside: Vec<Client> = (0..16).map(|_| server.client()).collect();
    inside.iter_mut().for_each(check_serves);
    let mut outside = server.client();
    outside.send("buy 1 1\n");
    assert!(outside.is_silent_for(ms(200)), "a seventeenth was served");
    inside.pop();
    assert!(outside.is_silent_for(ms(200)), "fifteen are still too many");
    inside.pop();
    assert_eq!(outside.line(), "[buy] success");
    inside.iter_mut().for_each(check_serves);
}

/// Any number of workers shares one limit on clients at once, and all clients are served.
pub fn the_limit_holds_for_all_workers(arm: &Arm) {
    const LIMIT: usize = 7;
    let mut plan = serve(arm).with(&["--max-connections", &LIMIT.to_string()]);
    if arm.is_uring() {
        // One for each core would be too many on a large machine.
        plan = plan.workers(2);
    }
    let server = plan.start();
    let mut waiting: Vec<Client> = (0..40).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.send("buy 1 1\n");
    }
    for _ in 0..200 {
        std::thread::sleep(ms(30));
        let (still, served): (Vec<Client>, Vec<Client>) =
            waiting.into_iter().partition(|client| client.hears_nothing());
        assert!(served.len() <= LIMIT, "{} at once, with a limit of {LIMIT}", served.len());
        waiting = still;
        if waiting.is_empty() {
            return;
        }
    }
    panic!("{} clients were never served", waiting.len());
}

/// Clients hold every available descriptor. The server still saves the book, twice, because it
/// reacquires the spare descriptor that it gives up for that.
pub fn saved_without_descriptors(arm: &Arm) {
    /// The number of clients for which the server has descriptors.
    const ROOM: u64 = 4;
    let (_folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let many = ["--max-connections", "500", "--save-every", "20ms"];
    let server = arm.stock(&data).with(&many).start();
    let most = lowest_free(server.pid).expect("numbers do not end") + ROOM;
    limit(&Family(vec![server.pid]), |_| Some(most));
    let mut client = server.client();
    assert_eq!(client.ask("sell 1 1"), "[sell] success");
    let crowd: Vec<Client> = (0..20).map(|_| server.client()).collect();
    let full = || lowest_free(server.pid).is_some_and(|number| number >= most);
    eventually("all descriptors are taken", PATIENCE, full);
    for left in 102..105 {
        assert_eq!(client.ask("sell 1 1"), "[sell] success");
        eventually("the order is in the file", PATIENCE, || {
            std::fs::read_to_string(&data).is_ok_and(|text| text == format!("1 {left} 10\n"))
        });
        eventually("the spare descriptor is reacquired", PATIENCE, full);
    }
    drop(crowd);
    drop(client);
    limit(&Family(vec![server.pid]), |_| None);
    server.settles();
    let stderr = server.stop().err;
    assert!(!stderr.contains("cannot save"), "{stderr}");
}

/// A supervisor without a free descriptor lets clients wait in the backlog until there is one. A
/// child costs it none: after the fork the connection belongs to the child alone.
pub fn visitors_wait_for_descriptors(arm: &Arm) {
    let server = serve(arm).start();
    let mut inside = server.client();
    check_serves(&mut inside);
    let supervisor = Family(vec![server.pid]);
    limit(&supervisor, lowest_free);
    let mut crowd: Vec<Client> = (0..20).map(|_| server.client()).collect();
    crowd.iter_mut().for_each(|client| client.send("buy 1 1\n"));
    eventually("no other client is let in", PATIENCE, || {
        crowd.iter().all(Client::hears_nothing) && server.children().len() == 1
    });
    check_rest(&server.family());
    check_serves(&mut inside);
    limit(&supervisor, |_| None);
    for mut client in crowd {
        assert_eq!(client.line(), "[buy] success");
    }
    drop(inside);
    server.settles();
    let stderr = server.stop().err;
    assert!(!stderr.contains("was closed"), "{stderr}");
}

/// Silent clients hold all places of a market whose idle time is an hour, and more of them wait.
/// The longest silent ones leave for a client that trades, and one that speaks stays.
pub fn the_silent_make_room_at_the_limit(arm: &Arm) {
    let server = serve(arm).with(&["--max-connections", "16"]).workers(1).start();
    let mut speaker = server.client();
    check_serves(&mut speaker);
    let silent: Vec<Client> = (0..30).map(|_| server.client()).collect();
    let mut outside = server.client();
    outside.send("buy 1 1\n");
    let begun = Instant::now();
    while outside.hears_nothing() {
        assert!(begun.elapsed() < PATIENCE, "silent clients keep another one out");
        check_serves(&mut speaker);
        std::thread::sleep(ms(100));
    }
    assert_eq!(outside.line(), "[buy] success");
    assert!(begun.elapsed() > ms(1500), "a client left that was hardly silent");
    check_serves(&mut speaker);
    drop(silent);
}
