//! `multiclient`, and the course's own children, against every engine: the file is exact.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;

use engines::Preset;
use sys::process::{self, Pid};
use sys::signal::Signal;
use testkit::{Folder, PATIENCE, eventually, skip};

use crate::oracle::{self, book, file, requests, settle};
use crate::replica::Replica;
use crate::server::{Server, called, each_engine, run, start};

/// Children of the crowd.
const CHILDREN: usize = 100;
/// Replicas of the course's own children, which are threads here.
const REPLICAS: u32 = 24;

/// The line of a child of the course's `multiclient` with this process id.
fn child(port: u16, pid: u32) -> String {
    let mut printed = format!("child {pid}\n");
    let mut client = Replica::connect(port);
    for request in requests(pid) {
        printed += &client.ask(&request);
    }
    printed
}

fn exact(preset: &Preset) {
    let mut book = book();
    let server = Server::on(preset, &file(&book));
    let ran = run(server.command("multiclient").args([&CHILDREN.to_string(), "--no-pause"]), "")
        .success();
    assert_eq!(settle(&ran.out, CHILDREN, &mut book), Ok(()));
    server.keeps(&file(&book));
    let printed: String = std::thread::scope(|scope| {
        let port = server.port();
        let children: Vec<_> = (0..REPLICAS)
            // Seeds as far apart as process ids.
            .map(|index| scope.spawn(move || child(port, 2_000 + 37 * index)))
            .collect();
        children.into_iter().map(|child| child.join().expect("ten replies")).collect()
    });
    assert_eq!(settle(&printed, REPLICAS as usize, &mut book), Ok(()));
    server.keeps(&file(&book));
    assert_eq!(server.close(), file(&book));
}

#[test]
fn a_hundred_children_leave_an_exact_file() {
    each_engine(exact);
}

#[test]
fn more_than_a_hundred_are_no_trouble() {
    let mut book = book();
    let server = Server::open(&file(&book), &["--quiet"]);
    let ran = run(server.command("multiclient").args(["400", "--no-pause"]), "").success();
    assert_eq!(settle(&ran.out, 400, &mut book), Ok(()));
    let ran = ran.says("connected: 400 of 400 clients").says("replies: 4000 of 4000");
    ran.says("throughput: ").says("check: right: 10 stocks");
    server.keeps(&file(&book));
    assert_eq!(server.close(), file(&book));
}

#[test]
fn a_seed_in_place_of_process_ids_can_be_repeated() {
    let mut book = book();
    let server = Server::open(&file(&book), &["--quiet"]);
    let args = ["3", "--no-pause", "--seed", "77"];
    for _ in 0..2 {
        let ran = run(server.command("multiclient").args(args), "").success();
        // The same orders, whatever the process ids were.
        let replies: String = ran
            .out
            .lines()
            .filter(|line| !line.starts_with("child "))
            .map(|l| format!("{l}\n"))
            .collect();
        let seeded: String = (77..80).map(|seed| format!("child {seed}\n")).collect();
        assert_eq!(settle(&(seeded + &replies), 3, &mut book), Ok(()));
        server.keeps(&file(&book));
    }
    server.close();
}

#[test]
fn numbers_mix_and_pause_are_options() {
    let server = Server::open("1 5 10\n2 5 10\n", &["--quiet"]);
    let json = |args: &[&str]| -> serde_json::Value {
        let ran = run(server.command("multiclient").args(args), "").success();
        serde_json::from_str(&ran.out).expect("one line of JSON and nothing else")
    };
    let shows = json(&["4", "--no-pause", "--json", "--mix", "show", "--orders", "25"]);
    assert_eq!((&shows["show"], &shows["replies"]), (&100.into(), &100.into()));
    let sales =
        json(&["4", "--no-pause", "--json", "--mix", "sell", "--stocks", "2", "--shares", "1"]);
    assert_eq!(sales["sell"], 40);
    let buys = ["6", "--no-pause", "--json", "--mix", "buy", "--stocks", "2", "--shares", "1"];
    let buys = json(&buys);
    // The book has 10, and clients sell 40: 50 of these 60 orders succeed.
    let sum = buys["buy"].as_u64().zip(buys["not_enough_left"].as_u64());
    assert!(sum.is_some_and(|(bought, refused)| bought + refused == 60 && bought <= 50), "{buys}");
    let far = json(&["1", "--no-pause", "--json", "--mix", "buy", "--stocks", "2147483647"]);
    assert_eq!(far["other"], 10, "there are no such stocks: {far}");
    let slow = json(&["2", "--json", "--orders", "3", "--pause", "50ms"]);
    assert!(slow["elapsed_s"].as_f64().is_some_and(|time| time >= 0.15), "{slow}");
    let silent = run(server.command("multiclient").args(["2", "--no-pause", "--quiet"]), "");
    assert_eq!((silent.code, silent.out.as_str()), (Some(0), ""));
    server.close();
}

/// Pages of more than 4096 bytes through a pipe, which takes at most that at once (pipe(7)).
#[test]
fn replies_of_two_clients_never_mix() {
    let shown: String = (1..=150).map(|id| format!("{id} {} 1234567890\n", 1_u64 << 55)).collect();
    assert!((4096..8192).contains(&shown.len()));
    let server = Server::open(&shown, &["--quiet"]);
    let mut command = std::process::Command::new("sh");
    let line = format!(
        "{} multiclient 127.0.0.1 {} 20 --no-pause --mix show | cat",
        crate::server::BINARY,
        server.port()
    );
    let ran = run(command.args(["-c", &line]), "");
    let (names, rows): (Vec<&str>, Vec<&str>) =
        ran.out.lines().partition(|line| line.starts_with("child "));
    assert_eq!(names.len(), 20);
    let pages = rows.concat() == shown.lines().collect::<String>().repeat(200);
    assert!(pages, "two hundred whole books, found {}", ran.out);
    server.close();
}

#[test]
fn a_pause_shows_each_reply_at_once() {
    let server = Server::open(&file(&book()), &["--quiet"]);
    let mut command = server.command("multiclient");
    let mut crowd = start(command.args(["1", "--mix", "buy", "--pause", "1h"]), "");
    eventually("the first reply is seen before the pause", PATIENCE, || {
        crowd.out().contains("[buy]")
    });
    assert!(crowd.out().starts_with("child "), "{}", crowd.out());
    process::kill(crowd.pid(), Signal::INT).expect("it runs");
    crowd.end(PATIENCE).exits(1).says("stopped by SIGINT").says("replies: 1 of 10 (0 show, 1 buy");
    server.close();
}

#[test]
fn children_end_with_their_parent() {
    let server = Server::open(&file(&book()), &["--quiet"]);
    let mut command = server.command("multiclient");
    let crowd = start(command.args(["5", "--pause", "1h"]), "");
    let number = |line: &str| Pid::of(line.strip_prefix("child ")?.parse().ok()?);
    let children = || crowd.out().lines().filter_map(number).collect::<Vec<_>>();
    eventually("five children", PATIENCE, || children().len() == 5);
    // Each child watches its parent before it prints its name.
    let children = children();
    process::kill(crowd.pid(), Signal::KILL).expect("it runs");
    eventually("no child is left", PATIENCE, || {
        let state = |pid: &Pid| std::fs::read_to_string(format!("/proc/{pid}/stat"));
        children.iter().all(|pid| state(pid).map_or(true, |stat| stat.contains(") Z ")))
    });
    server.close();
}

#[test]
fn clients_without_a_server_say_so_and_fail() {
    // No program listens on port 1 (tcpmux).
    let ran = run(called("multiclient").args(["127.0.0.1", "1", "20", "--no-pause"]), "")
        .exits(1)
        .says("cannot connect to 127.0.0.1:1")
        .says("20 of 20 clients could not finish")
        .says("check: no verdict: cannot connect");
    assert!(ran.err.matches("cannot connect").count() <= 4, "a word is enough: {}", ran.err);
    run(called("multiclient").args(["no host", "6000", "1"]), "").exits(2);
    assert_eq!(run(called("multiclient").args(["127.0.0.1", "6000", "0"]), "").code, Some(2));
}

/// A server that acknowledges every order and changes nothing.
fn forgetful(client: TcpStream) -> io::Result<()> {
    for line in BufReader::new(client.try_clone()?).lines() {
        let reply = match line?.split(' ').next() {
            Some("show") | None => "1 100 1\n\n".to_owned(),
            Some(side) => format!("[{side}] success\n"),
        };
        (&client).write_all(reply.as_bytes())?;
    }
    Ok(())
}

#[test]
fn a_book_that_does_not_follow_its_replies_fails_the_run() {
    let port = testkit::listen(forgetful).port().to_string();
    let words = ["127.0.0.1", &port, "3", "--no-pause", "--framing", "line", "--orders", "2"];
    let more = ["--stocks", "1", "--shares", "1", "--mix"];
    let ran = |mix: &str, flags: &[&str]| {
        run(called("multiclient").args(words).args(more).arg(mix).args(flags), "")
    };
    let want = "check: WRONG: stock 1: 100 before, +6 by the replies, so 106 expected, 100 found";
    ran("sell", &[]).exits(1).says(want);
    assert_eq!(ran("sell", &["--no-check"]).code, Some(0));
    let shown = ran("show", &["--json"]);
    let found: serde_json::Value = serde_json::from_str(&shown.out).expect("one line of JSON");
    assert_eq!((shown.code, &found["right"]), (Some(0), &true.into()), "{found}");
}

#[test]
fn our_rand_is_the_c_librarys() {
    const SEEDS: &[u32] =
        &[0, 1, 2, 42, 9999, 32768, 4_194_304, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    const COUNT: usize = 400;
    let program = include_str!("rand.c");
    let folder = Folder::new();
    folder.file("rand.c", program);
    let made = std::process::Command::new("cc")
        .args(["-o", "rand", "rand.c"])
        .current_dir(folder.path())
        .status();
    let seeds = SEEDS.iter().map(u32::to_string);
    let ran = match made {
        Ok(status) if status.success() => {
            run(std::process::Command::new(folder.path().join("rand")).args(seeds), "")
        }
        _ => return skip("cc and glibc"),
    };
    if ran.out == "another library\n" {
        return skip("cc and glibc");
    }
    let expected: Vec<u32> = ran.out.lines().map(|line| line.parse().expect("a number")).collect();
    let drawn = |&seed: &u32| {
        let mut rand = crate::rand::Rand::seeded(seed);
        (0..COUNT).map(|_| rand.draw()).collect::<Vec<_>>()
    };
    let found: Vec<u32> = SEEDS.iter().flat_map(drawn).collect();
    assert_eq!(found.len(), SEEDS.len() * COUNT);
    assert!(found == expected, "{found:?}\n{expected:?}");
    // The oracle uses the same generator.
    assert_eq!(oracle::requests(1)[0], "buy 7 8\n");
}
