//! Hand-overs by `SIGUSR2`: the next binary takes listeners and state (`drained` loads them). If a
//! hand-over is impossible, the server reports why and continues.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sys::signal::Signal;

use crate::arms::{Arm, EPOLL};
use crate::harness::{BINARY, Folder, Server, ms};

/// The old server serves its connections to their end.
pub fn who_is_inside_stays(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let mut server = arm.stock(&data).with(&["--upgradable"]).start();
    let mut inside = server.client();
    assert_eq!(inside.ask("buy 1 1"), "[buy] success");
    server.signal(Signal::USR2);
    server.says("handing over");
    for _ in 0..5 {
        std::thread::sleep(ms(100));
        assert_eq!(inside.ask("buy 1 1"), "[buy] success");
    }
    drop(inside);
    assert_eq!(server.succeeded(), Some(0));
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    server.stop();
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 93 10\n");
}

/// The server continues, and has reported why.
#[track_caller]
fn check_stays(server: &mut Server, reason: &str) {
    server.signal(Signal::USR2);
    server.says(reason);
    assert!(server.is_running());
    assert_eq!(server.ask("sell 1 1"), "[sell] success");
}

/// A hand-over is refused without a state that can be handed over.
pub fn refused_with_private_state(arm: &Arm) {
    let mut server = arm.book("1 100 10\n").start();
    check_stays(&mut server, "cannot hand over: the state lies in private memory");
}

#[test]
fn a_successor_that_does_not_become_ready_changes_nothing() {
    let (folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let binary = folder.path().join("roundhouse");
    fs::copy(BINARY, &binary).expect("a copy of the binary");
    let mut server = EPOLL.stock(&data).with(&["--upgradable"]).binary(&binary).start();
    fs::remove_file(&binary).expect("our copy");
    check_stays(&mut server, "cannot be started again");
    let script = folder.file("roundhouse", "#!/bin/sh\nexit 3\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("our own file");
    check_stays(&mut server, "did not become ready");
    server.stop();
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 102 10\n");
}
