//! `cargo xtask bench media`: compares the streamer with GStreamer's RTSP server and with one
//! ffmpeg a client. All use the same file, the same receiver and one core.
//!
//! The measure is the server's CPU time for a session (all processes, exact), because it determines
//! the sessions of a core. Then sessions grow until packets are late or lost, which shows whether
//! it does. Latency runs from DESCRIBE to the first packet, on the receiver's clock. The surprising
//! thing: the schedule of a foreign server is unknown, so the lateness of its packets derives from
//! their own timestamps, relative to the earliest packet of their sender.

mod servers;

use super::goals::{self, Figure, Values};
use super::{Ask, at_least, at_most, program, record};
use crate::steps;
use anyhow::{Context, ensure};
use serde_json::Value;
use servers::{Kind, Net, Server};
use stats::words::short;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

const NOTE: &str = "MPEG-TS of 3 Mbit/s by RTP over UDP, server on one core, receiver \
    (`roundhouse play`) on the other. Heard: the loopback device, where receiving is softirq \
    on the sender's core and waking the receiver is the sender's work; freed: while that \
    device drops what it is given. CPU is all of the server's processes', for a session. A \
    count of sessions is the most for which 99.9 % of the packets are late by at most 10 ms \
    more than with one session, and none is lost, by doubling. Live: one source (an ffmpeg \
    that writes a named pipe, not counted) to all, a receiver of its own for each. MediaMTX \
    and live555's server are in no Debian, so they are not compared.";

/// The allowed lateness of packets beyond that of a single session.
const OBJECTIVE_MS: f64 = 10.0;
/// The end of the search: beyond it the receiver is the limit.
const MOST: u32 = 640;

const LIMIT: &str = "the search ends where packets are late, and where the core of our server was \
    not full then (its share is printed meanwhile) the receiver on the other core was the limit";
const WAKES: &str = "ours wakes up in each millisecond in which a packet is due, which with \
    20 sessions is every one and most of the cost (see the row of what does not grow); with \
    ten times the sessions it is the same thousand wake-ups a second. The others wake up for a \
    picture and send its packets at once. Heard, each wake-up of ours wakes the receiver as \
    well. What an ffmpeg costs to start is not counted";

struct Bench {
    roundhouse: PathBuf,
    film: PathBuf,
    room: PathBuf,
    net: Net,
    /// The time for which a receiver listens to a session.
    listen: Duration,
    blocks: usize,
    quick: bool,
}

/// The receivers' findings.
#[derive(Default)]
struct Heard {
    first_p50_ms: f64,
    late_p999_ms: f64,
    lost: u64,
    packets: u64,
    played: u32,
    /// CPU of the server while it listened, seconds for each second and session.
    share: f64,
}

impl Heard {
    /// Adds the findings of one more receiver; lateness is that of the worst.
    fn add(&mut self, found: &Value) -> anyhow::Result<()> {
        let number = |name: &str| found[name].as_u64().unwrap_or(0);
        let late = found["late_ms"]["p999"].as_f64().context("a p99.9 of lateness")?;
        self.first_p50_ms = found["first_packet_ms"]["p50"].as_f64().unwrap_or(f64::NAN);
        self.late_p999_ms = self.late_p999_ms.max(late);
        self.lost += number("lost");
        self.packets += number("packets");
        self.played += number("played") as u32;
        Ok(())
    }
}

/// Measures, prints and keeps.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    let flags = &["--save", "--quick", "--blocks N"];
    let Ask { blocks, quick, save, .. } = Ask::parse(args, flags, stats::VALUES_MIN)?;
    let roundhouse = program()?;
    let room = steps::target_dir()?.join("bench-media");
    std::fs::create_dir_all(&room).with_context(|| format!("create {}", room.display()))?;
    let film = servers::film(&room)?;
    let listen = Duration::from_secs(if quick { 2 } else { 4 });
    let net = Net::make();
    let bench = Bench { roundhouse, film, room, net, listen, blocks, quick };
    let doubts: Vec<String> = record::busy().into_iter().collect();
    let figures = bench.figures();
    let title = "The media streamer beside others";
    goals::show(["media", title, NOTE], &figures, &doubts, save)
}

/// The servers and their numbers of sessions.
const ARMS: [(Kind, u32); 6] = [
    (Kind::Ours, 20),
    (Kind::Ours, 200),
    (Kind::Gstreamer, 20),
    (Kind::Ffmpeg, 10),
    (Kind::OursLive, 20),
    (Kind::GstreamerLive, 20),
];

/// The fewest sessions with which the search for the most begins.
const STARTS: [(Kind, u32); 3] = [(Kind::Ours, 80), (Kind::Gstreamer, 10), (Kind::Ffmpeg, 5)];

/// CPU of a session, block by block, or the reason why there is none.
type Shares = Result<Vec<f64>, String>;

/// Measures once more, unless that has failed before.
fn take(shares: &mut Shares, kind: Kind, share: impl FnOnce() -> anyhow::Result<f64>) {
    let Ok(values) = shares else { return };
    match share() {
        Ok(value) => values.push(value),
        Err(why) => *shares = Err(format!("{}: {why:#}", kind.name())),
    }
}

/// Two arms block by block.
fn pairs(shares: &[Shares], [a, b]: [usize; 2]) -> Result<[&Vec<f64>; 2], String> {
    Ok([shares[a].as_ref().map_err(String::clone)?, shares[b].as_ref().map_err(String::clone)?])
}

/// The ratios of the arms.
fn compared(shares: &[Shares], what: &'static str) -> Vec<Figure> {
    let ratio = |goal: &str, name: &str, arms: [usize; 2], wanted| {
        let found = pairs(shares, arms).map(|[above, below]| {
            let blocks = above.iter().zip(below).map(|(a, b)| a / b.max(1e-9)).collect();
            let [left, right] =
                [above, below].map(|it| short(stats::median(it).unwrap_or(f64::NAN) * 100.0));
            Values { blocks, from: format!("{left} / {right} % of a core") }
        });
        let [left, right] = arms.map(|at| ARMS[at].1);
        let load = format!("{left} / {right} sessions of 3 Mbit/s");
        let because = if name.starts_with("live") { "" } else { WAKES };
        let [goal, name, what, because] = [goal, name, what, because].map(str::to_owned);
        Figure { goal, name, what, load, wanted, because, found }
    };
    vec![
        ratio("P9", "GStreamer / ours", [2, 0], at_least(5.0)),
        ratio("P9", "ffmpeg a client / ours", [3, 0], at_least(10.0)),
        ratio("", "GStreamer / ours", [2, 1], None),
        ratio("", "ffmpeg a client / ours", [3, 1], None),
        ratio("", "ours / ours", [0, 1], None),
        ratio("P9", "live: GStreamer, shared / ours", [5, 4], at_least(1.0)),
    ]
}

/// The part of our cost at the smaller number of sessions that does not grow with them: the
/// straight line through both numbers, at zero sessions.
fn waking(shares: &[Shares]) -> Figure {
    let found = pairs(shares, [0, 1]).map(|[few, many]| {
        let [at_few, at_many] = [ARMS[0].1, ARMS[1].1].map(f64::from);
        let share = |(few, many): (&f64, &f64)| {
            let (low, high) = (few * at_few, many * at_many);
            (low - (high - low) / (at_many - at_few) * at_few) / low
        };
        let blocks = few.iter().zip(many).map(share).collect();
        let mut values = Values { blocks, from: String::new() };
        values.from = short(values.middle());
        values
    });
    Figure {
        goal: String::new(),
        name: "ours: what does not grow with sessions / all".to_owned(),
        what: "CPU, freed".to_owned(),
        load: "20 sessions, by the line through 20 and 200".to_owned(),
        wanted: None,
        because: String::new(),
        found,
    }
}

impl Bench {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.costs();
        figures.push(self.first_packet());
        figures.extend(self.knees());
        figures
    }

    /// CPU for a session, each server at its own number of sessions, in turns: heard by receivers,
    /// and freed.
    fn costs(&self) -> Vec<Figure> {
        let mut heard = vec![Ok(Vec::new()); ARMS.len()];
        let mut freed = heard.clone();
        for block in 0..self.blocks {
            eprintln!("── CPU for a session, block {} of {}", block + 1, self.blocks);
            for at in 0..ARMS.len() {
                let at = if block % 2 == 1 { ARMS.len() - 1 - at } else { at };
                let (kind, sessions) = ARMS[at];
                let share = || self.hear(kind, sessions).map(|heard| heard.share);
                take(&mut heard[at], kind, share);
                take(&mut freed[at], kind, || self.freed(kind, sessions));
            }
        }
        let mut figures = compared(&heard, "CPU a session, heard");
        figures.extend(compared(&freed, "CPU a session, freed"));
        figures.push(waking(&freed));
        figures
    }

    /// From DESCRIBE to the first packet.
    fn first_packet(&self) -> Figure {
        let sessions = if self.quick { 20 } else { 100 };
        let each = (0..self.blocks).map(|_| self.hear(Kind::Ours, sessions));
        let found: anyhow::Result<Vec<f64>> = each.map(|it| Ok(it?.first_p50_ms)).collect();
        let found = found.map_err(|why| format!("{why:#}")).map(|blocks| {
            let mut values = Values { blocks, from: String::new() };
            values.from = format!("{} ms", short(values.middle()));
            values
        });
        Figure {
            goal: "P10".to_owned(),
            name: "DESCRIBE to first packet, p50".to_owned(),
            what: "ms".to_owned(),
            load: format!("{sessions} sessions that begin within a second"),
            wanted: at_most(10.0),
            because: String::new(),
            found,
        }
    }

    /// The most sessions of each server, searched for once per block.
    fn knees(&self) -> Vec<Figure> {
        let mut found = vec![Ok(Vec::new()); STARTS.len()];
        for block in 0..self.blocks {
            for ((kind, start), knees) in STARTS.into_iter().zip(&mut found) {
                eprintln!("── sessions of {}, block {}", kind.name(), block + 1);
                take(knees, kind, || self.knee(kind, start).map(f64::from));
            }
        }
        let figure = |at: usize, bound| {
            let (kind, fewest) = STARTS[at];
            let found = pairs(&found, [0, at]).map(|[ours, theirs]| {
                // A server that is late with the fewest sessions of the trial carries fewer than
                // those.
                let fewest = f64::from(fewest);
                let theirs: Vec<f64> =
                    theirs.iter().map(|&it| if it > 0.0 { it } else { fewest }).collect();
                let [left, right] =
                    [ours, &theirs].map(|it| short(stats::median(it).unwrap_or(f64::NAN)));
                let blocks = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
                Values { blocks, from: format!("{left} / {right} sessions") }
            });
            Figure {
                goal: "P9".to_owned(),
                name: format!("ours / {}", kind.name()),
                what: "sessions a core".to_owned(),
                load: "doubled until late or lost".to_owned(),
                wanted: at_least(bound),
                because: LIMIT.to_owned(),
                found,
            }
        };
        vec![figure(1, 5.0), figure(2, 10.0)]
    }

    fn knee(&self, kind: Kind, start: u32) -> anyhow::Result<u32> {
        let objective = self.hear(kind, 1)?.late_p999_ms + OBJECTIVE_MS;
        let (mut kept, mut sessions) = (0, start);
        while sessions <= MOST {
            let heard = self.hear(kind, sessions)?;
            eprintln!(
                "   {sessions}: p99.9 {:.1} ms late, {} lost of {}, {:.0} % of the core",
                heard.late_p999_ms,
                heard.lost,
                heard.packets,
                heard.share * f64::from(sessions) * 100.0
            );
            let whole = heard.played == sessions && heard.lost == 0;
            if !whole || heard.late_p999_ms > objective {
                break;
            }
            kept = sessions;
            sessions *= 2;
            if self.quick && sessions > start * 2 {
                break;
            }
        }
        Ok(kept)
    }

    fn server(&self, kind: Kind, sessions: u32) -> anyhow::Result<Server> {
        Server::start(kind, &self.net, [&self.roundhouse, &self.film, &self.room], sessions)
    }

    /// CPU of a fresh server for each second and session while its datagrams are dropped where they
    /// leave, so that no receiver's work is in it.
    fn freed(&self, kind: Kind, sessions: u32) -> anyhow::Result<f64> {
        let server = self.server(kind, sessions)?;
        let ramp = Duration::from_secs(1);
        let mut listeners = self.listeners(kind, &server.url, sessions, ramp + self.listen)?;
        std::thread::sleep(ramp + self.listen / 4);
        self.net.free()?;
        let share = server.share(self.listen / 2);
        for listener in &mut listeners {
            // Otherwise it would wait for packets that no longer arrive.
            listener.kill()?;
            listener.wait()?;
        }
        self.net.deliver();
        Ok(share? / f64::from(sessions))
    }

    /// The receivers of these sessions on the other core. Those of a live source are programs of
    /// their own.
    fn listeners(
        &self,
        kind: Kind,
        url: &str,
        sessions: u32,
        time: Duration,
    ) -> anyhow::Result<Vec<Child>> {
        let (programs, each) = if kind.is_live() { (sessions, 1) } else { (1, sessions) };
        (0..programs).map(|_| self.listener(kind, url, each, time)).collect()
    }

    /// A receiver of `sessions` sessions on the other core.
    fn listener(
        &self,
        kind: Kind,
        url: &str,
        sessions: u32,
        time: Duration,
    ) -> anyhow::Result<Child> {
        let mut command = self.net.on_core(&self.roundhouse, 1, &self.roundhouse);
        command.arg("play").arg(url);
        command.args(["--json", "--for", &format!("{}ms", time.as_millis())]);
        if kind != Kind::Ffmpeg {
            command.args(["--sessions", &sessions.to_string(), "--ramp", "1s"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().context("start `roundhouse play`")
    }

    /// A fresh server with `sessions` sessions, received for a while.
    fn hear(&self, kind: Kind, sessions: u32) -> anyhow::Result<Heard> {
        let server = self.server(kind, sessions)?;
        let ramp = Duration::from_secs(1);
        let listeners = self.listeners(kind, &server.url, sessions, ramp + self.listen)?;
        // While all sessions play: not their beginning and not their end.
        std::thread::sleep(ramp + self.listen / 4);
        let share = server.share(self.listen / 2)? / f64::from(sessions);
        let mut heard = Heard { share, ..Heard::default() };
        let mut said = String::new();
        for listener in listeners {
            let output = listener.wait_with_output()?;
            said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let found: Value = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("`roundhouse play` said: {said}"))?;
            heard.add(&found)?;
        }
        if kind == Kind::Ffmpeg {
            heard.played = sessions;
        }
        let said = said.as_str();
        ensure!(heard.packets > 0, "{} sent nothing: {said}", kind.name());
        Ok(heard)
    }
}
