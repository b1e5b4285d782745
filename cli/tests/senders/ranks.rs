//! The sending worker gets the requested rank, and no other worker does, in threads and in
//! processes. The successor of a killed worker gets it too. A server without the permission does
//! not start.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::rank::{Turn, bounds, nice};

use testkit::{Folder, Law, PATIENCE, WAVE_RATE, has, skip, wave};

use crate::stage::{BINARY, Server, start};

/// A thread of the server: its name, its real-time priority and its nice value.
type Ranked = (Pid, String, Option<u32>, i32);

/// All threads of a process and of its children.
fn threads(of: Pid) -> Vec<Ranked> {
    let folder = format!("/proc/{of}/task");
    let mut found = Vec::new();
    // A thread may end while the test reads its files.
    for task in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let text = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        for child in text("children").split_ascii_whitespace() {
            let child = child.parse().ok().and_then(Pid::of);
            found.extend(threads(child.expect("a number")));
        }
        let number = task.file_name().to_str().and_then(|it| it.parse().ok()).and_then(Pid::of);
        let number = number.expect("a number");
        if let (Ok(turn), Ok(nice)) = (Turn::of(Some(number)), nice(Some(number))) {
            found.push((number, text("comm").trim().to_owned(), turn.fifo(), nice));
        }
    }
    found
}

/// Waits until `is_ranked` selects the expected number of threads, and returns them.
#[track_caller]
fn ranked(of: Pid, count: usize, is_ranked: impl Fn(&Ranked) -> bool) -> Vec<Ranked> {
    let begin = Instant::now();
    loop {
        let all = threads(of);
        let (those, others): (Vec<_>, Vec<_>) = all.into_iter().partition(&is_ranked);
        if those.len() == count {
            let here = (Turn::of(None).expect("ours").fifo(), nice(None).expect("ours"));
            for (_, name, fifo, nice) in others {
                assert_eq!((fifo, nice), here, "{name} runs as everybody does");
            }
            return those;
        }
        assert!(begin.elapsed() < PATIENCE, "expected {count}, found {those:?} of {of}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the machine permits ranks; if not, reports that.
fn may() -> bool {
    let tried = std::thread::spawn(|| Turn::in_front(1, false).give(None).is_ok());
    let may = tried.join().expect("no panic");
    if !may {
        skip("real-time priorities");
    }
    may
}

/// A server of a folder without media.
fn serve(folder: &Folder, args: &str) -> Server {
    Server::start(folder.path(), &args.split(' ').collect::<Vec<_>>())
}

#[test]
fn who_sends_has_the_rank_and_nobody_else_has() {
    let folder = Folder::new();
    for engine in ["thread", "prefork"] {
        // Every user may lower a priority.
        let server = serve(&folder, &format!("--engine {engine} --nice 11"));
        ranked(server.pid, 1, |it| it.3 == 11);
        if !may() {
            continue;
        }
        let server = serve(&folder, &format!("--engine {engine} --nice -3"));
        ranked(server.pid, 1, |it| it.3 == -3);
        let server = serve(&folder, &format!("--engine {engine} --fifo 7"));
        let first = ranked(server.pid, 1, |it| it.2 == Some(7));
        assert!(Turn::of(Some(first[0].0)).expect("it lives").resets_on_fork());
        if engine == "prefork" {
            sys::process::kill(first[0].0, sys::signal::Signal::KILL).expect("ours");
            ranked(server.pid, 1, |it| it.2 == Some(7) && it.0 != first[0].0);
        }
    }
}

#[test]
fn so_has_a_thread_for_each_stream() {
    let folder = Folder::new();
    folder.file("silence.wav", wave(Law::Mu, &[0xff; 2 * WAVE_RATE as usize]));
    let rank = if may() { "--fifo 5" } else { "--nice 13" };
    let server = serve(&folder, &format!("--sender plain {rank}"));
    let _player = start(BINARY, &["play", &format!("{}/silence.wav", server.url)]);
    let found = ranked(server.pid, 2, |it| it.2 == Some(5) || it.3 == 13);
    assert!(found.iter().any(|it| it.1 == "stream"), "{found:?}");
}

#[test]
fn without_leave_the_server_does_not_begin() {
    let allowed = bounds().expect("limits");
    if !has("setpriv") {
        return;
    }
    if allowed.0 <= -9 || allowed.1 >= 9 {
        return skip("limits that forbid ranks");
    }
    for (command, flags, wanted) in [
        ("serve media --port 0 --admin none --engine epoll /tmp", "--fifo 9", "priority 9"),
        ("serve media --port 0 --admin none --engine prefork /tmp", "--nice -9", "nice -9"),
    ] {
        let mut humble = Command::new("setpriv");
        humble.args(["--bounding-set=-sys_nice", "--inh-caps=-sys_nice", BINARY]);
        humble.args(command.split(' ')).args(flags.split(' '));
        let ended = testkit::run(&mut humble);
        let said = &ended.err;
        if said.contains("setpriv:") {
            // Without root the set cannot be changed, and the privilege is missing anyway.
            return skip("limits that forbid ranks");
        }
        assert_eq!(ended.code, Some(1), "{flags}: {said}");
        assert!(ended.out.is_empty(), "{flags}: it never was ready");
        for words in [wanted, "found", "CAP_SYS_NICE", "ulimit", "Limit"] {
            assert!(said.contains(words), "{flags}: {said}");
        }
    }
}
