//! The file is written after the last disconnect, at intervals and at the end, and only if the book
//! changed. It is never torn, and stays unchanged if the server cannot write it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Resource;
use sys::signal::Signal;

use crate::arms::{Arm, EPOLL};
use crate::harness::{Folder, PATIENCE, Raise, Server, eventually, limit, ms, skip, soak};
use crate::market::{book, parse};

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|meta| meta.modified()).expect("the file is there")
}

#[track_caller]
fn check_file(path: &Path, limit: Duration, wanted: &str) -> Duration {
    eventually(&format!("{} holds {wanted:?}", path.display()), limit, || {
        fs::read_to_string(path).is_ok_and(|text| text == wanted)
    })
}

/// Soon after the last disconnect, and not if nothing has changed.
pub fn saved_when_the_last_client_is_gone(arm: &Arm) {
    let (folder, data) = Folder::with("stock.txt", "1 10 100\r\n2 5 200");
    let before = modified(&data);
    let server = arm.stock(&data).start();
    let mut idle = server.client();
    idle.send("show\nbuy 1 11\nbuy 3 1\nbuy 1 0\nnonsense\nexit\n");
    idle.rest();
    drop(idle);
    std::thread::sleep(ms(400));
    assert_eq!(modified(&data), before, "nothing has changed, and the file was written");
    let mut client = server.client();
    assert_eq!(client.ask("buy 1 1"), "[buy] success");
    drop(client);
    check_file(&data, Duration::from_secs(1), "1 9 100\r\n2 5 200");
    let before = modified(&data);
    assert_eq!(server.ask("buy 1 10"), "Not enough left stocks");
    std::thread::sleep(ms(300));
    assert_eq!(modified(&data), before);
    server.stop();
    assert_eq!(modified(&data), before);
    assert_eq!(folder.names(), ["stock.txt"], "a temporary file was left");
}

/// At intervals, with a client that stays.
pub fn saved_at_intervals(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", "1 10 100\n");
    let server = arm.stock(&data).with(&["--save-every", "100ms"]).start();
    let mut client = server.client();
    for left in (5..10).rev() {
        assert_eq!(client.ask("buy 1 1"), "[buy] success");
        check_file(&data, PATIENCE, &format!("1 {left} 100\n"));
    }
    let before = modified(&data);
    std::thread::sleep(ms(350));
    assert_eq!(modified(&data), before, "nothing has changed, and the file was written");
}

/// At the end, with a client that stays until it.
pub fn saved_at_the_end(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", "1 10 100\n");
    let server = arm.stock(&data).start();
    let mut client = server.client();
    assert_eq!(client.ask("sell 1 5"), "[sell] success");
    std::thread::sleep(ms(200));
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 10 100\n");
    server.signal(Signal::TERM);
    assert_eq!(client.rest(), b"");
    drop(client);
    assert_eq!(server.ended(PATIENCE).code, Some(0));
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 15 100\n");
}

/// A reader of the file during a save finds the old book or the new one.
pub fn never_torn(arm: &Arm) {
    let text = book(500, 1_000_000);
    let (_folder, data) = Folder::with("stock.txt", &text);
    let server = arm.stock(&data).with(&["--save-every", "10ms"]).start();
    let (over, changes) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let raise = Raise(&over);
        let reader = scope.spawn(|| {
            let mut last = text.clone();
            while !over.load(Ordering::Relaxed) {
                let read = fs::read_to_string(&data).expect("the file is always there");
                let rows = parse(&read).map_or(0, |book| book.len());
                assert_eq!(rows, 500, "a torn file of {} bytes", read.len());
                changes.fetch_add(usize::from(read != last), Ordering::Relaxed);
                last = read;
            }
        });
        let mut client = server.client();
        let (begin, rounds) = (Instant::now(), soak(200, 10_000));
        for round in 0.. {
            // A reader on a busy machine needs time.
            let seen = changes.load(Ordering::Relaxed) >= 3 || begin.elapsed() > PATIENCE;
            if round >= rounds && seen {
                break;
            }
            let orders: String =
                (1..=50).map(|id| format!("buy {} 1\n", id * 10 - round % 10)).collect();
            client.send(&orders);
            for _ in 0..50 {
                assert_eq!(client.line(), "[buy] success");
            }
            std::thread::sleep(ms(2));
        }
        drop(raise);
        reader.join().expect("a reader that has found whole files");
    });
    let changes = changes.load(Ordering::Relaxed);
    assert!(changes >= 3, "the file was replaced {changes} times only");
}

/// Runs `bad` against a server that cannot write its file. The server reports that and continues;
/// at its end it leaves the file unchanged and exits with 1.
#[track_caller]
fn check_unsaved(server: Server, data: &Path, reason: &str) {
    let before = fs::read(data).expect("the file");
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    server.says("cannot save");
    server.says(reason);
    assert_eq!(server.ask("buy 1 1"), "[buy] success", "it serves on");
    server.signal(Signal::TERM);
    let stderr = server.ended(PATIENCE).exits(1).err;
    assert_eq!(stderr.matches("until this is mended").count(), 1, "{stderr}");
    assert_eq!(fs::read(data).expect("the file"), before);
}

/// The disk is full: a limit on the size of files stands in for it.
pub fn a_full_disk(arm: &Arm) {
    let (folder, data) = Folder::with("stock.txt", book(200, 100));
    let shell = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];
    let server = arm.stock(&data).behind(&shell).start();
    // The limit comes only now, because shared memory counts as a file and had to exist before.
    limit(server.pid, Resource::Fsize, Some(512), None);
    check_unsaved(server, &data, "could not write");
    assert_eq!(folder.names(), ["stock.txt"], "a temporary file was left");
}

/// The capabilities by which root ignores permissions (capabilities(7)).
const HUMBLE: [&str; 3] = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"];

/// The directory cannot be written to.
pub fn a_read_only_directory(arm: &Arm) {
    let (folder, data) = Folder::with("stock.txt", "1 10 100\n");
    let set_mode = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path(), permissions).expect("our own folder");
    };
    set_mode(0o555);
    let touch = |before: &[&str]| {
        let probe = folder.path().join("probe");
        let words = [before, &["touch", probe.to_str().expect("text")]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stderr(Stdio::null());
        command.status().map(|status| status.success())
    };
    let before: &[&str] = if touch(&[]).expect("touch(1)") { &HUMBLE } else { &[] };
    let _ = fs::remove_file(folder.path().join("probe"));
    if before.is_empty() || matches!(touch(before), Ok(false)) {
        let server = arm.stock(&data).behind(before).start();
        check_unsaved(server, &data, "could not create");
    } else {
        skip("read-only directories");
    }
    set_mode(0o755);
}

/// A second server on the same book is refused with the first one's process id, also after a
/// hand-over, and the book is free again afterwards.
pub fn one_server_a_book(arm: &Arm) {
    let (folder, data) = Folder::with("stock.txt", "1 10 100\n");
    let check_refused = |holder: &Server| {
        let reason = format!("process {} serves it already", holder.pid.number());
        arm.stock(&data).fail().exits(2).says(&reason);
    };
    let mut server = arm.stock(&data).with(&["--upgradable"]).start();
    check_refused(&server);
    let mut stays = server.client();
    assert_eq!(stays.ask("buy 1 1"), "[buy] success");
    server.signal(Signal::USR2);
    server.says("handing over");
    drop(stays);
    assert_eq!(server.succeeded(), Some(0), "{}", server.err());
    check_refused(&server);
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    server.stop();
    check_file(&data, PATIENCE, "1 8 100\n");
    assert_eq!(folder.names(), ["stock.txt"]);
    arm.stock(&data).start().stop();
}

#[test]
fn a_book_that_is_removed_is_written_again() {
    let (_folder, data) = Folder::with("stock.txt", "1 10 100\n");
    let server = EPOLL.stock(&data).start();
    fs::remove_file(&data).expect("our file");
    assert_eq!(server.ask("sell 1 5"), "[sell] success");
    check_file(&data, PATIENCE, "1 15 100\n");
    server.says("was removed while it was served");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_book_that_a_person_changes_is_left_alone_and_nothing_is_lost() {
    for edit in ["1 ten 100\n2 20 200\n", "2 20 200\n", "# more\n1 17 100\n2 20 250\n"] {
        let (folder, data) = Folder::with("stock.txt", "1 10 100\n2 20 200\n");
        let server = EPOLL.stock(&data).start();
        fs::write(&data, edit).expect("our file");
        assert_eq!(server.ask("buy 1 3"), "[buy] success");
        server.says("changed by hand while it was served");
        check_file(&folder.path().join("stock.txt.served"), PATIENCE, "1 7 100\n2 20 200\n");
        server.signal(Signal::TERM);
        let err = server.ended(PATIENCE).exits(1).err;
        assert_eq!(err.matches("cannot save").count(), 1, "{err}");
        assert_eq!(fs::read_to_string(&data).expect("the file"), edit);
    }
}

#[test]
fn what_killed_servers_leave_is_removed_and_the_rest_stays() {
    let (folder, data) = Folder::with("stock.txt", "1 10 100\n");
    for name in [".stock.txt.99-0.new", ".stock.txt.lock", "mine.new"] {
        folder.file(name, "1 2 3\n");
    }
    let server = EPOLL.stock(&data).start();
    server.says("removed 1 unfinished files");
    server.stop();
    assert_eq!(folder.names(), ["mine.new", "stock.txt"]);
}

#[test]
fn a_book_is_a_regular_file() {
    let folder = Folder::new();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for place in [Path::new("/dev/zero"), &pipe, folder.path()] {
        EPOLL.stock(place).fail().exits(2).says("expected a regular file");
    }
}

#[test]
fn what_a_crash_would_lose_is_said_at_the_start() {
    let (_folder, data) = Folder::with("stock.txt", "1 10 100\n");
    for (args, said) in [
        (&[][..], "--save-every 1s bounds that"),
        (&["--save-every", "0"], "--save-every 1s bounds that"),
        (&["--save-every", "2s"], "at most the orders of the last 2s"),
    ] {
        let server = EPOLL.stock(&data).with(args).start();
        server.says(said);
        let before = modified(&data);
        let mut client = server.client();
        assert_eq!(client.ask("sell 1 1"), "[sell] success");
        std::thread::sleep(ms(200));
        assert_eq!(modified(&data), before, "{args:?}: too early");
    }
}
