//! More connections at once than the kernel's queue holds, at a stopped server. The kernel drops
//! the excess. When the server continues it serves every client, if necessary after a retry.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::arms::Arm;
use crate::harness::{Client, PATIENCE, eventually, ms, soak};
use crate::market::{book, parse};

/// Clients that connect at once.
const CROWD: usize = 200;
/// The length of the kernel's queue, `--backlog`.
const BACKLOG: &str = "4";
/// How long the first try of a client may take, and the longest: the kernel itself would try for
/// two minutes (`tcp_syn_retries`, tcp(7)).
const TRY: Duration = Duration::from_millis(200);
const TRY_MAX: Duration = Duration::from_secs(5);
/// The time in which every client must be served.
const SERVED: Duration = Duration::from_secs(90);
/// The stack of a client's thread, in bytes.
const STACK: usize = 256 * 1024;

/// The machine's count of full queues (`TcpExt ListenOverflows`, proc_pid_net(5)).
fn overflows() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").expect("a kernel with TCP");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, numbers) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut pairs = names.split(' ').zip(numbers.split(' '));
    let found = pairs.find(|(name, _)| *name == "ListenOverflows");
    found.and_then(|(_, number)| number.parse().ok()).expect("a count of overflows")
}

/// One order on its own connection: `Some` if the server answered.
fn order(address: SocketAddr, limit: Duration) -> Option<()> {
    let mut client = Client::hasty(address, limit).ok()?;
    client.try_send("sell 1 1\nexit\n").ok()?;
    while client.try_receive().ok()? {}
    let heard = client.take();
    assert!(
        b"[sell] success\n".starts_with(&heard[..]),
        "expected an answer or a part of it, found {}",
        heard.escape_ascii()
    );
    (!heard.is_empty()).then_some(())
}

/// Two hundred clients meet a frozen server with room for four.
pub fn the_queue_overflows(arm: &Arm) {
    let server = arm.book(book(3, 1000)).with(&["--backlog", BACKLOG]).start();
    for _ in 0..soak(1, 10) {
        check_overflow(arm, &server);
    }
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    server.settles();
    server.stop().says("0 workers replaced");
}

#[track_caller]
fn check_overflow(arm: &Arm, server: &crate::harness::Server) {
    let left = || parse(&server.show()).and_then(|book| book.get(&1).copied()).expect("a stock");
    let before = left();
    let (full, tries) = (overflows(), AtomicU64::new(0));
    let family = server.family();
    family.freeze();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for index in 0..CROWD as u64 {
            let (tries, address) = (&tries, server.address);
            let persist = move || {
                let mut limit = TRY;
                while begin.elapsed() < SERVED {
                    tries.fetch_add(1, Ordering::Relaxed);
                    if order(address, limit).is_some() {
                        return;
                    }
                    // If all retried together they would find the queue full together.
                    std::thread::sleep(ms(index));
                    limit = (limit * 5 / 4).min(TRY_MAX);
                }
                panic!("not served within {SERVED:?}");
            };
            Builder::new().stack_size(STACK).spawn_scoped(scope, persist).expect("a thread");
        }
        eventually("the queue is full", PATIENCE, || overflows() > full);
        family.thaw();
    });
    // The server may have served an abandoned try too.
    let (sold, tries) = (left() - before, tries.into_inner() as i64);
    assert!((CROWD as i64..=tries).contains(&sold), "{sold} sold to {CROWD} in {tries} tries");
    println!("{:?}: {tries} tries in {:?}", arm.flags, begin.elapsed());
}
