//! `roundhouse play`: receives media without playing them, in one session or thousands, and reports
//! loss, order and lateness.
//!
//! The flags become a plan for `load::listen` (RTSP sessions) or `load::receive` (whatever arrives
//! at an address), which do the work in one thread. This file raises the limit of open files,
//! resolves the address and prints the report. Exit code 0 means that media came, no session
//! failed, and every first packet was the announced one.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use comfy_table::{CellAlignment, Table};
use load::listen::{
    ListenPlan, MediaReport, PAIRS_MAX, Percentiles, ReceivePlan, Transport, listen, receive,
};
use pages::terminal::{folded, ruled};
use serde_json::{Value, json};
use stats::words::time;
use wire::conf::span;

use crate::interrupt::watch;
use crate::usage;

/// The schema of `--json`.
const SCHEMA: &str = "roundhouse.play/1";
/// The number of descriptors in addition to those of receivers.
const SPARE: u64 = 64;
const PORT: u16 = 554;

/// The flags.
#[derive(clap::Args)]
pub struct Args {
    /// The source: rtsp://HOST:554/NAME (rtspt:// is the same with --tcp), or rtp://ADDRESS:PORT
    /// to receive whatever is sent there; a multicast group is joined
    pub url: String,
    /// How long to receive, at most; a session ends earlier with its media
    #[arg(short = 'd', long = "for", default_value = "10s", value_name = "TIME",
          value_parser = span)]
    pub time: Duration,
    /// Sessions at once; with rtp://, receivers at every second port, or in the group
    #[arg(short = 'c', short_alias = 'n', long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub sessions: u32,
    /// Time over which the sessions start
    #[arg(long, alias = "ramp", default_value = "1s", value_parser = span, value_name = "TIME")]
    pub stagger: Duration,
    /// Receive media within the RTSP connection instead of by UDP
    #[arg(long)]
    pub tcp: bool,
    /// Receive by multicast, from the group that the server names (one session)
    #[arg(long, conflicts_with = "tcp")]
    pub multicast: bool,
    /// The address of the interface on which to join groups [default: by the routing table]
    #[arg(long, value_name = "ADDRESS")]
    pub interface: Option<Ipv4Addr>,
    /// Where to begin in the media
    #[arg(long, alias = "from", default_value = "0s", value_parser = span, value_name = "TIME")]
    pub start: Duration,
    /// User name and password, or a file whose first line has them, which no list of processes
    /// shows
    #[arg(long, value_name = "NAME:PASSWORD|@FILE")]
    pub user: Option<String>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Receives until the time is over.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stop = watch()?;
    room(args)?;
    let report = match args.url.split_once("://") {
        Some(("rtp" | "udp+rtp", place)) => {
            let place = place.trim_start_matches('@').split('/').next().unwrap_or_default();
            let place =
                if place.starts_with(':') { format!("0.0.0.0{place}") } else { place.into() };
            let address =
                resolve(&place, false).with_context(|| format!("cannot listen at {place}"))?;
            let interface = args.interface.unwrap_or(Ipv4Addr::UNSPECIFIED);
            let (receivers, time) = (args.sessions, args.time);
            receive(&ReceivePlan { address, interface, receivers, time }, &stop)
                .with_context(|| format!("cannot listen at {address}"))?
        }
        Some(("rtsp" | "rtspt", rest)) => {
            if args.multicast && args.sessions > 1 {
                return Err(usage("expected one session with --multicast"));
            }
            let place = rest.split('/').next().unwrap_or_default();
            let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
            let place = if has_port(place) { place.into() } else { format!("{place}:{PORT}") };
            let address = resolve(&place, true).with_context(|| format!("cannot find {place}"))?;
            listen(&ask(args, address)?, &stop).context("cannot listen on this machine")?
        }
        _ => {
            let found = &args.url;
            return Err(usage(format_args!(
                "expected rtsp://HOST/NAME or rtp://ADDRESS:PORT, found `{found}`"
            )));
        }
    };
    if args.json {
        println!("{}", document(args, &report)?);
    } else {
        print(args, &report);
    }
    let whole = report.failed.is_empty() && report.sums.packets > 0 && report.misannounced == 0;
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Raises the limit of open files: RTSP needs a connection for each session and two sockets for
/// each pair of ports; RTP alone needs two sockets for each receiver.
fn room(args: &Args) -> Result<()> {
    let sessions = u64::from(args.sessions);
    let pairs = sessions.min(PAIRS_MAX.into());
    let each = if args.url.starts_with("rtsp") { sessions + 2 * pairs } else { 2 * sessions };
    let wanted = each + SPARE;
    let allowed = sys::limits::raise_open_files(wanted)?;
    if allowed < wanted {
        return Err(anyhow!(
            "expected room for {wanted} open files, found {allowed}: allow more (ulimit -Hn), or \
             listen with fewer than {sessions}"
        ));
    }
    Ok(())
}

fn has_port(place: &str) -> bool {
    let name = place.rsplit_once(']').map_or(place, |(_, behind)| behind);
    name.contains(':')
}

/// The address of a server by RTSP is one that answers; receivers of packets have no answer.
fn resolve(place: &str, is_rtsp: bool) -> Result<SocketAddr> {
    let all = sys::resolve::addresses(place)?;
    Ok(if is_rtsp { sys::resolve::answering(&all).unwrap_or(all[0]) } else { all[0] })
}

/// The name and password of `--user`: the text itself, or the first line of a file after an `@`.
///
/// # Errors
/// A file that cannot be read; no name or no colon. No error shows the text.
pub fn login(text: &str) -> Result<(String, String)> {
    let line = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).with_context(|| {
            format!("cannot read {path}: expected a file whose first line is NAME:PASSWORD")
        })?,
        None => text.to_owned(),
    };
    match line.lines().next().unwrap_or_default().split_once(':') {
        Some((name, password)) if !name.is_empty() => Ok((name.to_owned(), password.to_owned())),
        _ => bail!("expected NAME:PASSWORD, found no name or no colon"),
    }
}

fn ask(args: &Args, address: SocketAddr) -> Result<ListenPlan> {
    let login = args.user.as_deref().map(login);
    let lower = match args.interface {
        _ if args.tcp || args.url.starts_with("rtspt") => Transport::Connection,
        interface if args.multicast => Transport::Group(interface.unwrap_or(Ipv4Addr::UNSPECIFIED)),
        _ => Transport::Datagrams,
    };
    Ok(ListenPlan {
        address,
        url: args.url.replacen("rtspt://", "rtsp://", 1),
        lower,
        sessions: args.sessions,
        ramp: if args.sessions == 1 { Duration::ZERO } else { args.stagger },
        time: args.time,
        from_s: args.start.as_secs_f64(),
        login: login.transpose()?,
    })
}

fn document(args: &Args, report: &MediaReport) -> Result<Value> {
    let mut document = serde_json::to_value(report)?;
    document["schema"] = json!(SCHEMA);
    document["url"] = json!(args.url);
    Ok(document)
}

fn print(args: &Args, report: &MediaReport) {
    let MediaReport { sums, .. } = report;
    let line = |text: &str| println!("{}", folded(text, 16));
    line(&format!("{} · {:.1} s", args.url, report.seconds));
    if report.receivers > 1 {
        line(&format!("  receivers     {}", report.receivers));
    }
    if report.sessions > 0 {
        line(&format!(
            "  sessions      {} begun, {} with media, {} ended by the sender",
            report.sessions, report.played, report.ended
        ));
        line(&format!("  first packet  {}", shares(&report.first_packet_ms)));
    }
    for (why, count) in &report.failed {
        line(&format!("  failed        {count}: {why}"));
    }
    if report.failed.iter().any(|(why, _)| why.contains(" 453 ")) {
        line("                it bounds what one address gets: ours by --per-address");
    }
    line(&format!(
        "  packets       {} ({} bytes), {} lost, {} twice, {} out of order, {} of strangers",
        sums.packets, sums.bytes, sums.lost, sums.duplicates, sums.reordered, report.strangers
    ));
    if report.dropped > 0 {
        line(&format!(
            "  our own fault {} found no room in our receive buffers: fewer sessions, more \
             generators, or more of net.core.rmem_max",
            report.dropped
        ));
    }
    line(&format!(
        "  late          {} · jitter at most {}",
        shares(&report.late_ms),
        time(sums.jitter_ms * 1e6)
    ));
    line(&format!("  reports       {} of senders", report.reports));
    if report.misannounced > 0 {
        line(&format!(
            "  {} first packets were not those that RTP-Info announced",
            report.misannounced
        ));
    }
    if !report.tracks.is_empty() {
        println!("{}", tracks(report));
    }
}

/// A row for each stream.
fn tracks(report: &MediaReport) -> Table {
    let mut table = ruled();
    table.set_header([
        "sender",
        "payload",
        "packets",
        "lost",
        "out of order",
        "jitter",
        "late p50",
        "p99",
    ]);
    for track in &report.tracks {
        table.add_row([
            format!("{:08x}", track.ssrc),
            track.payload.clone(),
            track.found.packets.to_string(),
            track.found.lost.to_string(),
            track.found.reordered.to_string(),
            time(track.found.jitter_ms * 1e6),
            time(track.late_ms.p50 * 1e6),
            time(track.late_ms.p99 * 1e6),
        ]);
    }
    table.column_iter_mut().skip(2).for_each(|it| it.set_cell_alignment(CellAlignment::Right));
    table
}

fn shares(it: &Percentiles) -> String {
    let [p50, p99, p999, max] = [it.p50, it.p99, it.p999, it.max].map(|ms| time(ms * 1e6));
    format!("p50 {p50} p99 {p99} p99.9 {p999} max {max}")
}
