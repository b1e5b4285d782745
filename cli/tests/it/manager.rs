//! Under a service manager: readiness, signs of life, and a listener that the manager lends.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use sys::inherit;
use sys::signal::Signal;
use testkit::PATIENCE;

use crate::arms::Arm;
use crate::harness::{Client, Folder};

/// Waits for a datagram with all these lines.
#[track_caller]
fn hears(manager: &UnixDatagram, lines: &[&str]) {
    let mut bytes = [0; 1000];
    // Signs of life come between, so a count bounds the wait.
    for _ in 0..100 {
        let count = manager.recv(&mut bytes).unwrap_or_else(|error| panic!("{lines:?}: {error}"));
        let text = String::from_utf8_lossy(&bytes[..count]);
        if lines.iter().all(|line| text.lines().any(|it| it == *line)) {
            return;
        }
    }
    panic!("expected {lines:?} of the server, found only signs of life");
}

/// Two servers in sequence and a hand-over use two listeners; a client between them waits.
pub fn a_lent_listener(arm: &Arm) {
    let folder = Folder::new();
    let data = folder.file("stock.txt", "1 100 20\n");
    let place = folder.path().join("notify");
    let manager = UnixDatagram::bind(&place).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let also = other.local_addr().expect("it listens");
    for lent in [&listener, &other] {
        inherit::set_inheritable(lent, true).expect("our own descriptor");
    }
    let script = format!(
        "exec 3<&{}- 4<&{}-; export LISTEN_FDS=2 LISTEN_PID=$$ WATCHDOG_PID=$$ \
         WATCHDOG_USEC=500000 NOTIFY_SOCKET={}; exec \"$@\"",
        listener.as_raw_fd(),
        other.as_raw_fd(),
        place.display()
    );
    let mut waiting = Client::new(address);
    for _ in 0..2 {
        let plan = arm.stock(&data).with(&["--upgradable"]);
        let mut server = plan.behind(&["bash", "-c", &script, "bash"]).start();
        assert_eq!(server.address, address);
        let is_main = |pid| format!("MAINPID={pid}");
        hears(&manager, &["READY=1", &is_main(server.pid)]);
        hears(&manager, &["WATCHDOG=1"]);
        assert_eq!(waiting.ask("buy 1 1"), "[buy] success");
        drop(waiting);
        server.signal(Signal::USR2);
        assert_eq!(server.succeeded(), Some(0), "{}", server.err());
        hears(&manager, &["READY=1", &is_main(server.pid)]);
        hears(&manager, &["WATCHDOG=1"]);
        assert_eq!(server.ask("buy 1 1"), "[buy] success");
        assert_eq!(Client::new(also).ask("buy 1 1"), "[buy] success");
        server.stop().says("stopped after");
        waiting = Client::new(address);
    }
}
