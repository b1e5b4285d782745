//! Receivers get the same packets from every sender. Each sender that works on the machine plays
//! every kind of file to several sessions at once, on the architectures in turn: to the end, with a
//! pause and a seek, and cut short. The packets equal byte for byte those within the connection,
//! which use no sender.
//!
//! Senders that set up queues do so in a separate network.

use std::path::Path;
use std::time::Duration;

use pacing::Sender;

use crate::receiver::{Payload, Receiver};
use testkit::skip;

use crate::stage::{Server, films};

/// The kinds of files.
const FILMS: [&str; 5] = ["film.ts", "film.mp4", "tone.wav", "disc.wav", "talk.ogg"];
/// The target of seeks; a packet begins there in each file.
const PLACE: &str = "2-";
/// The engines, used in turn.
const ENGINES: [&str; 6] = ["epoll", "prefork", "uring", "thread", "select", "port"];
/// Servers at once.
const ABREAST: usize = 9;
/// After this time without a packet no packet is on its way.
const QUIET: Duration = Duration::from_millis(400);
/// The number of packets of a track that count as a beginning.
const SOME: usize = 12;

/// The payloads of each track.
type Program = Vec<Vec<Payload>>;

fn payloads(receiver: Receiver) -> Program {
    receiver.tracks.into_iter().map(|track| track.payloads).collect()
}

/// From the beginning to the bye.
fn whole(url: &str, within: bool) -> Program {
    let mut receiver = Receiver::open(url, within);
    receiver.play(Some("0-"));
    receiver.hear(Receiver::is_over);
    assert!(receiver.began().iter().all(|at| *at == 0), "{url}: RTP-Info");
    assert!(receiver.tracks.iter().all(|track| track.reports > 0), "{url}: no report");
    payloads(receiver)
}

/// Until some track has this many packets more.
fn hear_some(receiver: &mut Receiver) {
    let before = receiver.counts();
    receiver.hear(|it| {
        let more = |(now, before)| now >= before + SOME;
        it.is_over() || it.counts().into_iter().zip(&before).any(more)
    });
}

/// With a pause, and a seek to a later place: the packets before the seek, and those after it.
fn broken_up(url: &str) -> [Program; 2] {
    let mut receiver = Receiver::open(url, false);
    receiver.play(Some("0-"));
    for _ in 0..2 {
        hear_some(&mut receiver);
        receiver.pause();
        receiver.hear_out(QUIET);
        receiver.play(None);
    }
    hear_some(&mut receiver);
    receiver.pause();
    receiver.hear_out(QUIET);
    receiver.play(Some(PLACE));
    receiver.hear(Receiver::is_over);
    let front = receiver.began();
    let mut tracks = payloads(receiver);
    let rest = tracks.iter_mut().zip(front).map(|(track, front)| track.split_off(front)).collect();
    [tracks, rest]
}

/// Ended by the client.
fn cut_short(url: &str) -> Program {
    let mut receiver = Receiver::open(url, false);
    receiver.play(Some("0-"));
    hear_some(&mut receiver);
    // A track that has not begun when its session ends sends no BYE.
    receiver.hear(|it| it.counts().iter().all(|count| *count > 0));
    receiver.tear_down();
    receiver.hear(Receiver::is_over);
    receiver.hear_out(QUIET);
    payloads(receiver)
}

/// One film as three clients received it.
struct Played {
    film: &'static str,
    whole: Program,
    broken_up: [Program; 2],
    cut_short: Program,
}

/// Plays every film at once.
fn play_all(url: &str) -> Vec<Played> {
    std::thread::scope(|scope| {
        let all = FILMS.map(|film| {
            let url = format!("{url}/{film}");
            let again = [url.clone(), url.clone()];
            let whole = scope.spawn(move || whole(&url, false));
            let [url, last] = again;
            let broken_up = scope.spawn(move || broken_up(&url));
            let cut_short = scope.spawn(move || cut_short(&last));
            (film, whole, broken_up, cut_short)
        });
        let all = all.into_iter().map(|(film, whole, broken_up, cut_short)| Played {
            film,
            whole: whole.join().expect("a whole film"),
            broken_up: broken_up.join().expect("a film with a pause and a seek"),
            cut_short: cut_short.join().expect("a film cut short"),
        });
        all.collect()
    })
}

/// The films as `sender` sends them, if it works here.
fn tried(folder: &Path, sender: Sender, engine: &str) -> Option<Vec<Played>> {
    if let Err(why) = pacing::probe(sender) {
        let lacks = ["io_uring", "root"].into_iter().find(|it| sender.row().needs.contains(it));
        match lacks.unwrap_or_else(|| panic!("{sender} needs nothing special: {why}")) {
            "root" => skip("queues and programs of the kernel's"),
            other => skip(other),
        }
        return None;
    }
    let act = || {
        let server = Server::start(folder, &["--engine", engine, "--sender", sender.name()]);
        Ok(play_all(&server.url))
    };
    let played = if sender.row().sets_up_queues { sys::netlink::apart(act) } else { act() };
    Some(played.expect("as its probe was"))
}

/// Compares two programs, and reports the first difference.
fn check(name: &str, got: &Program, want: &Program) {
    assert_eq!(got.len(), want.len(), "{name}: tracks");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let parts = got.iter().zip(want).position(|(got, want)| got != want);
        let lens = (got.len(), want.len());
        assert_eq!((parts, lens.0), (None, lens.1), "{name}, track {at}: {lens:?} packets");
    }
}

/// Cut to the length of `like`: its beginning, or its end.
fn part(of: &Program, like: &Program, is_end: bool) -> Program {
    let cut = |(of, like): (&Vec<Payload>, &Vec<Payload>)| {
        let len = like.len().min(of.len());
        if is_end { of[of.len() - len..].to_vec() } else { of[..len].to_vec() }
    };
    of.iter().zip(like).map(cut).collect()
}

fn compare(who: &str, played: &Played, want: &Program) {
    let name = |what: &str| format!("{who}, {}, {what}", played.film);
    check(&name("whole"), &played.whole, want);
    let [front, rest] = &played.broken_up;
    check(&name("with pauses"), front, &part(want, front, false));
    check(&name("from a later place"), rest, &part(want, rest, true));
    let came = |program: &Program| program.iter().map(Vec::len).sum::<usize>();
    assert!(came(rest) > 0 && came(rest) < came(want), "{}", name("sought"));
    check(&name("cut short"), &played.cut_short, &part(want, &played.cut_short, false));
    assert!(came(&played.cut_short) < came(want), "{}: it goes on", name("cut short"));
}

/// The films within the connection.
fn reference(folder: &Path) -> Vec<Program> {
    let server = Server::start(folder, &[]);
    std::thread::scope(|scope| {
        let all = FILMS.map(|film| {
            let url = format!("{}/{film}", server.url);
            scope.spawn(move || whole(&url, true))
        });
        all.into_iter().map(|it| it.join().expect("a film in the connection")).collect()
    })
}

/// Each sender under one engine; under all of them in the long form.
fn pairs() -> Vec<(Sender, &'static str)> {
    let is_long = std::env::var_os("ROUNDHOUSE_SOAK").is_some_and(|word| word == "1");
    let has_rings = pacing::probe(Sender::UringChain).is_ok();
    let turns = if is_long { ENGINES.len() } else { 1 };
    let all = (0..turns).flat_map(|turn| Sender::all().enumerate().map(move |it| (turn, it)));
    let pair = |(turn, (at, sender)): (usize, (usize, Sender))| {
        let engine = ENGINES[(at + turn) % ENGINES.len()];
        let is_rings = ["uring", "port"].contains(&engine);
        (sender, if is_rings && !has_rings { "epoll" } else { engine })
    };
    all.map(pair).collect()
}

#[test]
fn every_sender_delivers_the_same_media() {
    let Some(folder) = films() else { return };
    let pairs = pairs();
    let (mut want, mut got) = (Vec::new(), Vec::new());
    for abreast in pairs.chunks(ABREAST) {
        std::thread::scope(|scope| {
            let begun = want.is_empty().then(|| scope.spawn(|| reference(folder)));
            let all = abreast.iter().map(|&(sender, engine)| {
                (sender, engine, scope.spawn(move || tried(folder, sender, engine)))
            });
            let all: Vec<_> = all.collect();
            for (sender, engine, played) in all {
                let played = played.join().unwrap_or_else(|_| panic!("{sender} under {engine}"));
                got.extend(played.map(|played| (format!("{sender} under {engine}"), played)));
            }
            want.extend(begun.into_iter().flat_map(|it| it.join().expect("films")));
        });
    }
    assert!(got.len() > 1, "there is something to compare");
    for (who, played) in &got {
        played.iter().zip(&want).for_each(|(played, want)| compare(who, played, want));
    }
}
