//! Several addresses of one server, and the rights that it gives up once it listens.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sys::signal::Signal;

use crate::arms::Arm;
use crate::harness::{BINARY, Client, Plan, Server, skip};
use crate::web::{check_digits, get, site};

/// Several addresses at once, before and after a hand-over; all clients are served, and all names
/// are told.
pub fn several_addresses(arm: &Arm) {
    let (folder, root) = site();
    let path = folder.path().join("socket");
    let host = format!("unix:{}", path.display());
    let more = ["--listen", "127.0.0.2:0", "--listen", &host, "--upgradable"];
    let plan = Plan::new(arm, "http").with(&[root.as_str()]).with(&more);
    if arm.flags.contains("--accept exclusive") {
        plan.fail().says("--accept exclusive is refused with 3 listeners");
        return;
    }
    let (mut server, ready) = plan.announce();
    let also = &ready["also"];
    let second: SocketAddr = also[0].as_str().expect("text").parse().expect("an address");
    assert_eq!((second.ip().to_string().as_str(), &also[1]), ("127.0.0.2", &host.clone().into()));
    let request = get("/a.txt", "Connection: close\r\n");
    let ask = |server: &Server| {
        for _ in 0..3 {
            for mut client in [server.client(), Client::new(second)] {
                client.send(&request);
                assert!(client.rest().ends_with(b"\r\n\r\n0123456789"));
            }
            check_digits(&path, "");
        }
    };
    ask(&server);
    server.signal(Signal::USR2);
    assert_eq!(server.succeeded(), Some(0), "{}", server.err());
    ask(&server);
    server.stop();
    assert!(!path.exists(), "the socket is removed");
}

/// A server that starts as root becomes a user without rights: it serves, writes only its log, and
/// hands over to a successor that is this user already.
pub fn rights_are_given_up(arm: &Arm) {
    if sys::own::user() != 0 {
        return skip("root");
    }
    let (folder, root) = site();
    let open = |path: &Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("our own");
    };
    open(folder.path());
    let log = folder.path().join("log").to_str().expect("text").to_owned();
    let binary = folder.path().join("server");
    std::fs::copy(BINARY, &binary).expect("a copy, which others may read");
    let more = ["--run-as", "nobody", "--upgradable", "--access-log", &log, "--port", "0"];
    let plan = Plan::new(arm, "http").binary(&binary).with(&[root.as_str()]).with(&more);
    let mut server = plan.start();
    let ask = |server: &Server| {
        let mut client = server.client();
        client.send(get("/a.txt", "Connection: close\r\n"));
        assert!(client.rest().ends_with(b"\r\n\r\n0123456789"));
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid));
        let status = status.expect("a living server");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(value("Uid:").iter().chain(&value("Gid:")).all(|id| id != "0"), "{status}");
        assert_eq!((value("CapEff:")[0].as_str(), &value("NoNewPrivs:")[0][..]), (NONE, "1"));
    };
    ask(&server);
    server.signal(Signal::USR2);
    assert_eq!(server.succeeded(), Some(0), "{}", server.err());
    ask(&server);
    server.stop();
    let log = std::fs::read_to_string(log).expect("the log");
    assert_eq!(log.lines().count(), 2, "{log}");
}

/// No capability, as `/proc` shows it.
const NONE: &str = "0000000000000000";
