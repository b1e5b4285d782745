//! `roundhouse cast`: sends a file, or the bytes of a pipe, to an address or a group over RTP, and
//! writes the description (SDP). The receiver need not send a request or an answer.
//!
//! It is the media server without RTSP: `Media::push` writes one order per track, `run_alone` runs
//! the streaming worker in this process, and `Watcher` follows it until all tracks have ended, the
//! time is over, or Ctrl-C releases the orders. The first packet is due 100 ms after the start, so
//! the sender is ready by then. Exit code 0 means that every packet left.

use std::io::{IsTerminal, Write, stderr};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use ::media::{Aim, Media, Options, Orders, Push};
use anyhow::{Context, Result, anyhow};
use engines::Assets;
use language::info;
use language::level::is_quiet;
use memory::{Placement, Region};
use pacing::{Classes, PacedRunner, Sender, StreamSockets, StreamStats, probe, run_alone};
use seam::{Instant, WorkerId};
use stats::words::time;
use wire::conf::span;

use crate::interrupt::watch;
use crate::senders::RankArgs;
use crate::serve::site::Site;
use crate::serve::source::{self, SourceFlag};
use crate::serve::streams::report;
use crate::serve::{WALL_CLOCK, folder_of, secret};

/// How often to check whether everything has been sent.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long after the start the first packet is due.
const BEGIN_IN: Duration = Duration::from_millis(100);
/// The interval of progress reports.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// The flags.
#[derive(clap::Args)]
pub struct Args {
    /// The file to send; a named pipe, or `-` for standard input, is sent as it comes
    file: PathBuf,
    /// The receiver or group: rtp://HOST:PORT; further tracks go to every second port after it
    to: Place,
    /// Write the description (SDP) to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    sdp: Option<PathBuf>,
    /// Begin again at the end, until stopped
    #[arg(long = "loop")]
    repeat: bool,
    /// Where to begin in the media
    #[arg(long, alias = "from", default_value = "0s", value_parser = span, value_name = "TIME")]
    start: Duration,
    /// How long to send at most
    #[arg(long = "for", value_parser = span, value_name = "TIME")]
    time: Option<Duration>,
    /// How packets wait for their moment and leave (`roundhouse senders` explains them)
    #[arg(long, default_value_t = Sender::USUAL)]
    sender: Sender,
    #[command(flatten)]
    rank: RankArgs,
    /// Audio leaves before video (`on`), or packets by time alone (`off`); limits in ms, such as
    /// `audio=60,video=200`, also drop packets that are later
    #[arg(long, default_value_t, value_name = "on|off|CLASS=MS,…")]
    classes: Classes,
    /// The TTL of packets to a group; 1 stays in this network
    #[arg(long, default_value_t = 1, value_name = "HOPS")]
    ttl: u8,
    /// The address to send from; to a group also the network
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
    /// The port to send from, an even one; 0 picks one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    rtp_port: u16,
}

/// `rtp://HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(SocketAddr);

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let wanted = || format!("expected rtp://HOST:PORT, found `{text}`");
        let place = text.strip_prefix("rtp://").or_else(|| text.strip_prefix("udp+rtp://"));
        let place = place.ok_or_else(wanted)?.trim_end_matches('/').trim_start_matches('@');
        let mut found =
            place.to_socket_addrs().map_err(|error| format!("{}: {error}", wanted()))?;
        let found = found.find(|address| address.port() > 0).ok_or_else(wanted)?;
        Ok(Place(found))
    }
}

/// Sends until the end, or until it is stopped.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stop = watch()?;
    let Place(to) = args.to;
    if args.sender != Sender::USUAL
        && let Err(why) = probe(args.sender)
    {
        return Err(anyhow!("{} does not work here: {why}", args.sender));
    }
    let live = SourceFlag::of(&args.file);
    let (folder, name) = match &live {
        Some(source) => (Path::new("."), source.name.clone()),
        None => (folder_of(&args.file), named(&args.file)?),
    };
    let site = Site::open(folder, false)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let options = Options {
        secret: secret()?,
        wall: WALL_CLOCK,
        repeat: args.repeat,
        from_files: args.sender.sends_files(),
        ..Options::default()
    };
    let sources: Vec<SourceFlag> = live.into_iter().collect();
    let mut orders: Region<Orders> =
        Region::place(Placement::Private).context("cannot place the orders in memory")?;
    orders.init(&options.secret).map_err(|bad| anyhow!("{bad}"))?;
    let sources = source::open(&sources, Placement::Private, Vec::new())?;
    let media = Media::new(options, site).with_sources(sources);
    let anywhere: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let host = args.host.unwrap_or(anywhere);
    let sockets = StreamSockets::bind(host, args.rtp_port)
        .with_context(|| format!("cannot send from port {} of {host}", args.rtp_port))?;
    sockets.set_multicast(args.ttl, args.host)?;
    let me = WorkerId::new(0, 1);
    let aim = Aim { to, ttl: args.ttl, from: args.start };
    // The sender is ready by then, so the first packet is not late.
    let begin = Instant::from_ns(sys::clock::now_ns()) + BEGIN_IN;
    let pushed = match media.push(&orders, (me, begin), &name, &aim) {
        Ok(pushed) => pushed,
        Err(reason) => return Err(anyhow!(reason)),
    };
    describe(args, &pushed)?;
    let stats = StreamStats::default();
    let casting = PacedRunner::new((&media, &*orders), args.sender, &sockets, &stats)
        .ranked(args.rank.rank())
        .classed(args.classes);
    let watcher = Watcher { orders: &orders, stats: &stats, pushed: &pushed };
    let meanwhile = |ring: &dyn Fn()| watcher.follow(args.time, &stop, ring);
    run_alone(&casting, &Assets::default(), Duration::ZERO, meanwhile)?;
    finish(&stats, orders.skipped());
    let unsent = stats.failed.read() + orders.skipped();
    let is_whole = stats.packets.read() > 0 && unsent == 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn named(file: &Path) -> Result<String> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| anyhow!("expected a file, found {}", file.display()))
}

/// Writes the description, and prints a summary of the streams.
fn describe(args: &Args, pushed: &Push) -> Result<()> {
    match &args.sdp {
        Some(path) => sys::file::replace(path, &pushed.description)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => std::io::stdout().write_all(&pushed.description)?,
    }
    let Place(to) = args.to;
    let (file, tracks) = (args.file.display(), pushed.tracks.join(", "));
    let length = pushed
        .duration
        .map_or("until it ends".to_owned(), |it| format!("for {:.1} s", it.as_secs_f64()));
    info!("sending {file} ({tracks}) to {to} {length}, by {}", args.sender);
    if !pushed.left_out.is_empty() {
        info!("left out, because it cannot be sent: {}", pushed.left_out.join(", "));
    }
    Ok(())
}

/// Follows the streams.
struct Watcher<'a> {
    orders: &'a Orders,
    stats: &'a StreamStats,
    pushed: &'a Push,
}

impl Watcher<'_> {
    /// Shows progress until everything has been sent, the time is over, or `stop` is set.
    fn follow(&self, time: Option<Duration>, stop: &AtomicBool, ring: &dyn Fn()) {
        let began = Clock::now();
        let (mut told, is_watched) = (began, stderr().is_terminal() && !is_quiet());
        let slots = &self.pushed.slots;
        let mut is_leaving = false;
        while slots.iter().any(|slot| self.orders.is_underway(*slot)) {
            std::thread::sleep(LOOK_EVERY);
            let is_over = time.is_some_and(|time| began.elapsed() >= time);
            if (is_over || stop.load(Ordering::Relaxed)) && !is_leaving {
                is_leaving = true;
                slots.iter().for_each(|slot| self.orders.release(*slot));
                ring();
            }
            if is_watched && told.elapsed() >= TELL_EVERY {
                told = Clock::now();
                eprint!("\r\x1b[K{}", self.line(began.elapsed()));
            }
        }
        if is_watched {
            eprint!("\r\x1b[K");
        }
    }

    fn line(&self, passed: Duration) -> String {
        let seconds = passed.as_secs_f64();
        let of = self
            .pushed
            .duration
            .map_or(String::new(), |whole| format!(" of {:.0}", whole.as_secs_f64()));
        let (packets, bytes) = (self.stats.packets.read(), self.stats.bytes.read());
        let late = self.stats.quantile(0.99).map_or(String::new(), |late| {
            format!(", lateness p99 {}", time(late.as_nanos() as f64))
        });
        let rate = bytes as f64 * 8e-6 / seconds.max(0.001);
        format!("{seconds:.0}{of} s, {packets} packets, {rate:.2} Mbit/s{late}")
    }
}

/// Prints the lateness and the drift.
fn finish(stats: &StreamStats, skipped: u64) {
    report(stats, skipped);
    if let Some(drift) = stats.drift_ns() {
        info!("drift from the first packet to the last: {:+.3} ms", drift as f64 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_and_a_port() {
        let check = |text: &str, want: &str| {
            let place: Place = text.parse().expect(text);
            assert_eq!(place.0.to_string(), want);
        };
        check("rtp://127.0.0.1:5004", "127.0.0.1:5004");
        check("udp+rtp://239.1.2.3:5004/", "239.1.2.3:5004");
        check("rtp://[::1]:5004", "[::1]:5004");
        for bad in ["127.0.0.1:5004", "rtp://127.0.0.1", "rtsp://127.0.0.1:5004", "rtp://h:0"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }
}
