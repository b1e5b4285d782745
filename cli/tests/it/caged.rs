//! A server with little memory and hundreds of clients that request much and read nothing. The
//! server makes no output beyond a connection's high-water mark, so it survives and serves others.

use rustix::process::Resource;

use crate::arms::Arm;
use crate::harness::{Cage, Client, Plan, Server, data_bytes, limit, skip};
use crate::market::book;

/// The most memory that a server may use for all of them, in bytes.
const MEMORY_MAX: u64 = 64 << 20;
/// The same including the kernel's memory for the server; 64 MiB sufficed on Linux 6.1. The kernel
/// keeps tens of KiB ready for each socket of the usual segment size, and less with small segments.
const CAGE: u64 = 96 << 20;
/// Clients that read nothing.
const DEAF: usize = 500;
/// A reply of some 33 kB, so that the replies asked for are 3 MB a client and 1.6 GB in all.
const STOCKS: u32 = 2000;
const REPLIES: usize = 100;

fn serve(arm: &Arm) -> Plan<'_> {
    let plan = arm.book(book(STOCKS, 1_000_000)).with(&["--write-stall", "60s"]);
    // One for each core would be too many on a large machine.
    if arm.workers.is_none() && arm.is_uring() { plan.workers(2) } else { plan }
}

/// Connects the crowd, serves other clients next to it, then disconnects it.
#[track_caller]
fn check(mut server: Server) {
    let deaf: Vec<Client> = (0..DEAF)
        .map(|_| {
            let mut client = Client::distant(server.address).expect("a connection");
            client.send("show\n".repeat(REPLIES));
            client
        })
        .collect();
    let mut other = server.client();
    for round in 0..20 {
        assert_eq!(other.ask("buy 1 1"), "[buy] success", "round {round}");
        assert_eq!(server.ask("sell 1 1"), "[sell] success", "round {round}");
        assert!(server.is_running());
    }
    assert_eq!(server.show().lines().count(), STOCKS as usize);
    drop(deaf);
    drop(other);
    server.settles();
    server.stop().says("0 workers replaced");
}

/// The server's own memory is bounded: an allocation beyond that would end it (`RLIMIT_DATA`,
/// getrlimit(2)).
pub fn a_deaf_crowd_in_little_memory(arm: &Arm) {
    let server = serve(arm).start();
    for pid in server.family().0 {
        let most = data_bytes(pid).expect("the server runs") + MEMORY_MAX;
        limit(pid, Resource::Data, Some(most), Some(most));
    }
    check(server);
}

/// All memory is bounded, including the kernel's for the server: no process is killed.
pub fn a_deaf_crowd_in_a_cage(arm: &Arm) {
    let Some(cage) = Cage::new(CAGE) else {
        return skip("a control group");
    };
    let before: Vec<&str> = cage.before.iter().map(String::as_str).collect();
    check(serve(arm).behind(&before).start());
}
