//! `cargo xtask bench media`: the streamer beside GStreamer's RTSP server and beside one ffmpeg a
//! client, all with the same file, the same receiver and one core.
//!
//! What is compared is the server's CPU time for a session (all processes, exact), because that is
//! what the sessions of a core follow from; then sessions grow until packets are late or lost, so
//! that it is seen whether they do follow. Latency runs from DESCRIBE to the first packet, on the
//! receiver's clock. The surprising thing: a foreign server's schedule is not known, so its packets
//! are late by their own timestamps, against the earliest packet of their sender.

mod servers;

use super::goals::{self, Bound, Figure, Values, short};
use super::record;
use crate::steps;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use servers::{Kind, Server};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const NOTE: &str = "MPEG-TS of 3 Mbit/s by RTP over UDP (loopback device; the cost of receiving is \
    softirq on the sender's core and in every figure), server on one core, receiver \
    (`roundhouse play`) on the other. CPU is all of the server's processes', for a session. A \
    count of sessions is the most for which 99.9 % of the packets are late by at most 10 ms more \
    than with one session, and none is lost, by doubling.";

/// Packets may be late by so much more than those of a single session.
const OBJECTIVE_MS: f64 = 10.0;
/// The end of the search: beyond it the receiver is the limit.
const MOST: u32 = 640;

const LIMIT: &str = "the search ends where packets are late, and where the core of our server was \
    not full then (its share is printed meanwhile) the receiver on the other core was the limit";
const BURSTS: &str = "ffmpeg sends the packets of a picture at once, which saves wake-ups and \
    makes its packets late; ours leave each at its moment. What an ffmpeg costs to start is not \
    counted";

struct Bench {
    roundhouse: PathBuf,
    film: PathBuf,
    room: PathBuf,
    /// How long a session is listened to.
    listen: Duration,
    blocks: usize,
    quick: bool,
}

/// What a receiver found.
struct Heard {
    first_p50_ms: f64,
    late_p999_ms: f64,
    lost: u64,
    packets: u64,
    played: u32,
    /// CPU of the server while it listened, seconds for each second and session.
    share: f64,
}

/// Measures, prints and keeps.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    let (mut blocks, mut quick, mut save) = (3, false, false);
    let mut flags = args.iter();
    while let Some(flag) = flags.next() {
        match flag.as_str() {
            "--save" => save = true,
            "--quick" => (quick, blocks) = (true, 1),
            "--blocks" => {
                let number = flags.next().and_then(|it| it.parse().ok());
                blocks = number.filter(|it| *it > 0).context("--blocks expects a number")?;
            }
            other => bail!("expected --save, --quick or --blocks N, found `{other}`"),
        }
    }
    let build = ["build", "--release", "-p", "cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let room = steps::target_dir()?.join("bench-media");
    std::fs::create_dir_all(&room).with_context(|| format!("create {}", room.display()))?;
    let film = servers::film(&room)?;
    let roundhouse = steps::binary("roundhouse", "release")?;
    let listen = Duration::from_secs(if quick { 2 } else { 4 });
    let bench = Bench { roundhouse, film, room, listen, blocks, quick };
    let doubts: Vec<String> = record::busy().into_iter().collect();
    let figures = bench.figures();
    let text = goals::text(NOTE, &figures, &doubts);
    print!("{text}");
    if save {
        let path =
            goals::save("media", "The media streamer beside others", &text, &figures, &doubts)?;
        eprintln!("bench: saved in {}", path.display());
    }
    Ok(())
}

impl Bench {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.costs();
        figures.push(self.first_packet());
        figures.extend(self.knees());
        figures
    }

    /// CPU for a session, each server at its own number of sessions, in turns.
    fn costs(&self) -> Vec<Figure> {
        let arms = [(Kind::Ours, 20), (Kind::Ours, 200), (Kind::Gstreamer, 20), (Kind::Ffmpeg, 10)];
        let mut shares: Vec<Result<Vec<f64>, String>> = vec![Ok(Vec::new()); arms.len()];
        for block in 0..self.blocks {
            eprintln!("── CPU for a session, block {} of {}", block + 1, self.blocks);
            for at in 0..arms.len() {
                let at = if block % 2 == 1 { arms.len() - 1 - at } else { at };
                let (kind, sessions) = arms[at];
                let Ok(values) = &mut shares[at] else { continue };
                match self.hear(kind, sessions) {
                    Ok(heard) => values.push(heard.share),
                    Err(why) => shares[at] = Err(format!("{}: {why:#}", kind.name())),
                }
            }
        }
        let ratio = |goal, name: &str, [left, right]: [usize; 2], bound| {
            let found = match (&shares[left], &shares[right]) {
                (Ok(above), Ok(below)) => {
                    let blocks = above.iter().zip(below).map(|(a, b)| a / b.max(1e-9)).collect();
                    let [left, right] = [above, below].map(|it| {
                        let mut all = it.clone();
                        short(goals::median(&mut all) * 100.0)
                    });
                    Ok(Values { blocks, from: format!("{left} / {right} % of a core") })
                }
                (Err(why), _) | (_, Err(why)) => Err(why.clone()),
            };
            let (left, right) = (arms[left].1, arms[right].1);
            let load = format!("{left} / {right} sessions of 3 Mbit/s");
            let because = if name.starts_with("ffmpeg") { BURSTS } else { "" };
            let (name, what) = (name.to_owned(), "CPU a session");
            Figure { goal, name, what, load, bound, because, found }
        };
        vec![
            ratio("P9", "GStreamer / ours", [2, 0], Bound::AtLeast(5.0)),
            ratio("P9", "ffmpeg a client / ours", [3, 0], Bound::AtLeast(10.0)),
            ratio("", "GStreamer / ours", [2, 1], Bound::Shown),
            ratio("", "ours / ours", [0, 1], Bound::Shown),
        ]
    }

    /// From DESCRIBE to the first packet.
    fn first_packet(&self) -> Figure {
        let sessions = if self.quick { 20 } else { 100 };
        let each = (0..self.blocks).map(|_| self.hear(Kind::Ours, sessions));
        let found: anyhow::Result<Vec<f64>> = each.map(|it| Ok(it?.first_p50_ms)).collect();
        let found = found.map_err(|why| format!("{why:#}")).map(|blocks| {
            let mut values = Values { blocks, from: String::new() };
            values.from = format!("{} ms", short(values.summary().0));
            values
        });
        Figure {
            goal: "P10",
            name: "DESCRIBE to first packet, p50".to_owned(),
            what: "ms",
            load: format!("{sessions} sessions that begin within a second"),
            bound: Bound::AtMost(10.0),
            because: "",
            found,
        }
    }

    /// The most sessions of each server.
    fn knees(&self) -> Vec<Figure> {
        let mut found: Vec<(Kind, Result<u32, String>)> = Vec::new();
        for (kind, start) in [(Kind::Ours, 80), (Kind::Gstreamer, 10), (Kind::Ffmpeg, 5)] {
            eprintln!("── sessions of {}", kind.name());
            found.push((kind, self.knee(kind, start).map_err(|why| format!("{why:#}"))));
        }
        let ours = found[0].1.clone();
        let figure = |goal, kind: Kind, theirs: &Result<u32, String>, bound| {
            let values = match (&ours, theirs) {
                (Ok(ours), Ok(theirs)) => Ok(Values {
                    blocks: vec![f64::from(*ours) / f64::from((*theirs).max(1))],
                    from: format!("{ours} / {theirs} sessions"),
                }),
                (Err(why), _) | (_, Err(why)) => Err(why.clone()),
            };
            Figure {
                goal,
                name: format!("ours / {}", kind.name()),
                what: "sessions a core",
                load: "doubled until late or lost".to_owned(),
                bound,
                because: LIMIT,
                found: values,
            }
        };
        found[1..]
            .iter()
            .zip([5.0, 10.0])
            .map(|((kind, theirs), bound)| figure("P9", *kind, theirs, Bound::AtLeast(bound)))
            .collect()
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

    /// A fresh server with so many sessions, heard for a while.
    fn hear(&self, kind: Kind, sessions: u32) -> anyhow::Result<Heard> {
        let server = Server::start(kind, &self.roundhouse, &self.film, &self.room, sessions)?;
        let ramp = Duration::from_secs(1);
        let time = ramp + self.listen;
        let mut command = Command::new(&self.roundhouse);
        command.args(["pin", "1", "--"]).arg(&self.roundhouse).arg("play").arg(&server.url);
        command.args(["--json", "--for", &format!("{}ms", time.as_millis())]);
        if kind != Kind::Ffmpeg {
            command.args(["--sessions", &sessions.to_string(), "--ramp", "1s"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().context("start `roundhouse play`")?;
        // While all sessions play: not their beginning and not their end.
        std::thread::sleep(ramp + self.listen / 4);
        let (before, from) = (server.cpu()?, std::time::Instant::now());
        std::thread::sleep(self.listen / 2);
        let (after, took) = (server.cpu()?, from.elapsed());
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let found: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`roundhouse play` said: {}", said.trim()))?;
        let share = (after.saturating_sub(before)).as_secs_f64() / took.as_secs_f64();
        let number = |name: &str| found[name].as_u64().unwrap_or(0);
        let heard = Heard {
            first_p50_ms: found["first_packet_ms"]["p50"].as_f64().unwrap_or(f64::NAN),
            late_p999_ms: found["late_ms"]["p999"].as_f64().context("a p99.9 of lateness")?,
            lost: number("lost"),
            packets: number("packets"),
            played: match kind {
                Kind::Ffmpeg => sessions,
                _ => number("played") as u32,
            },
            share: share / f64::from(sessions),
        };
        ensure!(heard.packets > 0, "{} sent nothing: {}", kind.name(), said.trim());
        Ok(heard)
    }
}
