//! The probe uses every function of the seam. For any input, cut in any way, the reply is that of
//! `sim::laws::probe::expected`. The server itself checks the laws and panics at a breach; every
//! server handle checks for that when it is dropped.

use std::collections::BTreeSet;

use sim::laws::probe::{Menu, NUMBERED, SHARED_MAX, expected, numbered, plain, requests};
use stats::Rng;
use sys::signal::Signal;

use crate::arms::Arm;
use crate::harness::{Client, PATIENCE, Server, eventually, ms, soak};

/// Every function, in few bytes.
const SCRIPT: &[u8] = b"echo a b\nmuch 5\nflow 40\nshared 3\nfile 2\njob abc\nwait 1\nnudge 1\n\
    count\nid\nwhat\n\necho end\nrest";

/// Sends the pieces of `input` and expects the answer of the model.
#[track_caller]
pub fn check<'a>(server: &Server, pieces: impl Iterator<Item = &'a [u8]>, what: &str) {
    let mut client = server.client();
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        // A conversation may end before all is sent.
        let _ = client.try_send(piece);
        if piece.len() % 3 == 1 {
            // Long enough for the server to sometimes receive the piece alone.
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
    }
    client.finish();
    let heard = plain(&client.rest());
    let wanted = expected(&input);
    let differs = heard.iter().zip(&wanted).position(|(heard, wanted)| heard != wanted);
    let at = differs.unwrap_or(heard.len().min(wanted.len()));
    let near = |bytes: &[u8]| bytes[at.saturating_sub(30)..].escape_ascii().to_string();
    assert!(
        heard == wanted,
        "{what}: replies differ at byte {at} of {} (found {}): expected ..{:.80}, found ..{:.80}",
        wanted.len(),
        heard.len(),
        near(&wanted),
        near(&heard)
    );
}

/// `input` cut into pieces of random lengths.
fn cut(mut input: &[u8], rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while !input.is_empty() {
        let most = *rng.pick(&[1, 3, 20, 200, 5000]);
        let (piece, rest) = input.split_at((1 + rng.below(most)).min(input.len()));
        pieces.push(piece.to_vec());
        input = rest;
    }
    pieces
}

/// Random scripts with random cuts, on up to four connections at once.
#[track_caller]
fn check_random(arm: &Arm, args: &[&str], menu: Menu, seeds: u64) {
    let server = arm.probe().with(args).start();
    let lanes = arm.crowd(4) as u64;
    std::thread::scope(|scope| {
        for lane in 0..lanes {
            let server = &server;
            scope.spawn(move || {
                for seed in (0..seeds).filter(|seed| seed % lanes == lane) {
                    let script = requests(seed, 40, menu);
                    let pieces = cut(&script, &mut Rng::new(seed));
                    let pieces = pieces.iter().map(Vec::as_slice);
                    check(server, pieces, &format!("{args:?}, seed {seed}"));
                }
            });
        }
    });
    server.stop();
}

pub fn splits_at_every_byte(arm: &Arm) {
    let server = arm.probe().start();
    for at in 0..=SCRIPT.len() {
        let (first, second) = SCRIPT.split_at(at);
        let mut client = server.client();
        client.send(first);
        std::thread::sleep(ms(1));
        client.send(second);
        client.finish();
        let heard = plain(&client.rest());
        assert_eq!(
            heard.escape_ascii().to_string(),
            expected(SCRIPT).escape_ascii().to_string(),
            "split at byte {at}"
        );
    }
    server.stop();
}

pub fn one_byte_at_a_time(arm: &Arm) {
    let server = arm.probe().start();
    check(&server, SCRIPT.chunks(1), "one byte at a time");
    let server = arm.probe().with(&["--narrow", "--one-by-one"]).start();
    check(&server, SCRIPT.chunks(1), "narrow, one byte at a time");
}

pub fn random_scripts(arm: &Arm) {
    let menu = Menu { lines_max: 2000, wait_ms_max: 4, files: true, endings: false };
    check_random(arm, &[], menu, soak(12, 400));
    check_random(arm, &["--one-by-one"], Menu { endings: true, ..menu }, soak(12, 400));
}

pub fn random_scripts_in_narrow_bounds(arm: &Arm) {
    let menu = Menu { lines_max: 100, wait_ms_max: 3, files: true, endings: false };
    check_random(arm, &["--narrow"], menu, soak(12, 400));
    let menu = Menu { endings: true, ..menu };
    check_random(arm, &["--narrow", "--one-by-one"], menu, soak(12, 400));
}

/// Megabytes of replies to one burst, from each function that makes many bytes.
pub fn pipelined_bursts(arm: &Arm) {
    let server = arm.probe().start();
    for door in ["much 60", "flow 60", "shared 60", "file 60", "echo x", "job abc"] {
        let script = format!("{door}\n").repeat(3000).into_bytes();
        let mut client = server.client();
        let mut sender = client.twin();
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                sender.send(&script);
                sender.finish();
            });
            client.rest()
        });
        assert!(heard == expected(&script), "{door}: {} bytes", heard.len());
    }
    server.stop();
}

/// The largest replies of all functions, to a client that reads all of them.
pub fn great_replies(arm: &Arm) {
    let server = arm.probe().start();
    for door in ["much", "flow", "shared", "file"] {
        let mut client = server.client();
        client.send(format!("{door} {SHARED_MAX}\nbye\n"));
        let mut wanted: Vec<u8> = (0..SHARED_MAX).flat_map(numbered).collect();
        wanted.extend_from_slice(b"bye\n");
        let heard = client.rest();
        assert!(heard == wanted, "{door}: {} of {} bytes", heard.len(), SHARED_MAX * NUMBERED + 4);
    }
}

/// A client that has sent everything and closed its half still gets every reply.
pub fn half_close(arm: &Arm) {
    let server = arm.probe().start();
    for script in ["wait 50\njob abc\nflow 5000\necho x", "", "job abc\n", "wait 30\n"] {
        check(&server, [script.as_bytes()].into_iter(), script);
    }
}

/// A line over the limit is answered before its end, and no reset discards the answer although the
/// client continues to send.
pub fn a_line_too_long(arm: &Arm) {
    let server = arm.probe().start();
    for excess in [0, 1, 1000, 300_000] {
        let mut client = server.client();
        let line = vec![b'x'; sim::laws::probe::LINE_MAX + excess];
        let _ = client.try_send(line);
        let heard = client.rest();
        assert_eq!(heard, b"long\n", "{excess} bytes too many");
    }
    assert_eq!(server.ask("echo still here"), "= still here");
}

/// The server ends the conversation, and ignores later input.
pub fn bye(arm: &Arm) {
    let server = arm.probe().start();
    let mut client = server.client();
    client.send("echo a\nbye\necho too late\n");
    assert_eq!(client.rest(), b"= a\nbye\n");
    drop(client);
    server.settles();
}

/// Deadlines expire without input: one that does not hold input back, and one that does.
pub fn deadlines(arm: &Arm) {
    let server = arm.probe().start();
    let mut client = server.client();
    client.send("nudge 30\n");
    assert_eq!(client.line(), "#nudge");
    client.send("nudge 400\nwait 20\necho behind\n");
    assert_eq!(
        [client.line(), client.line(), client.line()],
        ["waited", "= behind", "#nudge"].map(str::to_owned)
    );
}

/// A client that sends nothing gets a message and is closed; one that has sent may be silent.
pub fn patience_with_the_silent(arm: &Arm) {
    let server = arm.probe().with(&["--patience", "300ms"]).start();
    let begin = std::time::Instant::now();
    assert_eq!(server.client().rest(), b"#late\n");
    assert!(begin.elapsed() >= ms(250), "cut after {:?}", begin.elapsed());
    let mut talker = server.client();
    assert_eq!(talker.ask("echo begun"), "= begun");
    assert!(talker.is_silent_for(ms(700)));
    assert_eq!(talker.ask("echo still"), "= still");
}

/// All workers share one state: every count is returned once.
pub fn one_state_for_all_workers(arm: &Arm) {
    let server = arm.probe().start();
    let crowd = arm.crowd(8);
    let mut told = BTreeSet::new();
    for _ in 0..3 {
        let mut clients: Vec<Client> = (0..crowd).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send("count\ncount\n");
        }
        for mut client in clients {
            told.extend([client.line(), client.line()]);
        }
    }
    let wanted: BTreeSet<String> = (1..=6 * crowd).map(|n| format!("#total {n}")).collect();
    assert_eq!(told, wanted);
}

/// The world ticks by itself, in one worker.
pub fn the_world_ticks(arm: &Arm) {
    let server = arm.probe().with(&["--tick", "20ms"]).start();
    let ticks = || {
        let line = server.ask("ticks");
        line.strip_prefix("#ticks ").and_then(|count| count.parse::<u64>().ok()).expect("a count")
    };
    let first = ticks();
    eventually("three more ticks", PATIENCE, || ticks() >= first + 3);
}

fn id(client: &mut Client) -> u64 {
    let line = client.ask("id");
    line.strip_prefix("#id ").and_then(|id| id.parse().ok()).expect("an id")
}

/// Bytes for another session arrive if the worker owns all sessions; otherwise the engine refuses
/// them.
pub fn bytes_for_another_session(arm: &Arm) {
    let check = |server: &Server| {
        let carries = (server.workers == 1 && arm.is_loop()) || arm.is_port();
        if arm.crowd == 1 {
            let mut client = server.client();
            let me = id(&mut client);
            assert_eq!(client.ask(&format!("tell {me} hi")), "#refused");
            return;
        }
        let (mut here, mut there) = (server.client(), server.client());
        let (me, other) = (id(&mut here), id(&mut there));
        assert_ne!(me, other, "two sessions of one name");
        for round in 0..50 {
            let answer = here.ask(&format!("tell {other} hello {round}"));
            assert_eq!(answer, if carries { "#told" } else { "#refused" });
            if carries {
                assert_eq!(there.line(), format!("~hello {round}"));
            }
        }
        if carries {
            // To no session, to one that is gone, and to itself.
            drop(there);
            assert_eq!(here.ask("tell 12345 x"), "#told");
            assert_eq!(here.ask(&format!("tell {other} x")), "#told");
            here.send(format!("tell {me} x\n"));
            assert_eq!([here.line(), here.line()], ["#told", "~x"].map(str::to_owned));
        } else {
            assert!(there.is_silent_for(ms(100)));
        }
    };
    check(&arm.probe().start());
    if arm.crowd > 1 && !arm.is_blocking {
        check(&arm.probe().workers(1).start());
    }
}

/// Every client receives the notice of a drain, and the server ends at once.
pub fn everyone_hears_of_the_drain(arm: &Arm) {
    let server = arm.probe().with(&["--drain", "30s"]).start();
    let mut clients: Vec<Client> = (0..arm.crowd(8)).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("echo here"), "= here");
    }
    server.signal(Signal::TERM);
    for mut client in clients {
        assert_eq!(client.rest(), b"#drain\n");
    }
    server.ended(PATIENCE).success();
}
