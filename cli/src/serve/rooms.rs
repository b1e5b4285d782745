//! `roundhouse serve rooms`: conferences, a relay of RTP between speakers and listeners.

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use ::media::rooms::{Options, Relay, Rooms};
use anyhow::{Context, Result, anyhow};
use engines::status::Gauge;
use engines::{Assets, Handover, StateStore};
use memory::Region;
use pacing::{PacedRunner, Sender, StreamSockets, StreamStats};
use seam::Limits;
use server::{Beside, ServerArgs, ServiceInstance};
use tools::serve::secret;
use tools::serve::streams::report;
use wire::conf::span;

/// The default port: RTSP's own needs a privilege.
const PORT: u16 = 8554;

/// The flags of the relay.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("8554")))]
pub struct Args {
    /// Members that send RTP without RTSP join this room, and hear the others at the address that
    /// they send from
    #[arg(long, value_name = "ROOM")]
    plain: Option<String>,
    /// End a session without request, packet or report for this long
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    session_timeout: Duration,
    /// The even port of media by UDP; reports use the next; 0 picks two
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    rtp_port: u16,
    #[command(flatten)]
    server: ServerArgs,
}

/// Keeps nothing, and reports on the relay.
struct Figures<'a>(&'a StreamStats);

impl StateStore<Rooms> for Figures<'_> {
    fn gauges(&self, rooms: &Rooms) -> Vec<Gauge> {
        let total = |name, help, value: u64| Gauge::total(name, help, value as f64);
        let (arrived, dropped) = rooms.datagrams();
        vec![
            Gauge::now("rooms_members", "Speakers and listeners by RTSP", rooms.count() as f64),
            total("rooms_arrived", "Datagrams that came in", arrived),
            total("rooms_dropped", "Datagrams dropped because too many waited", dropped),
            total("rooms_packets", "Packets that the kernel took", self.0.packets.read()),
            total("rooms_failed", "Packets that could not leave", self.0.failed.read()),
        ]
    }
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    args.server.refuse_layers(true, "speakers and listeners speak RTSP, and media leave by UDP")?;
    let shape = args.server.shape()?;
    let host = args.server.ip()?;
    let handover = Handover::receive()?;
    let passed = handover.as_ref().map(Handover::others).transpose()?.unwrap_or_default();
    let sockets = match <[OwnedFd; 2]>::try_from(passed) {
        Ok([rtp, rtcp]) => StreamSockets::adopt(rtp, rtcp),
        Err(_) => StreamSockets::bind(host, args.rtp_port),
    };
    let sockets =
        sockets.with_context(|| format!("cannot send from port {} of {host}", args.rtp_port))?;
    let mut rooms: Region<Rooms> = args.server.state(&shape, handover.as_ref(), "rooms")?;
    if handover.is_none() {
        rooms.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    }
    let relay = Relay::new(Options {
        limits: Limits::default(),
        ports: sockets.ports()?,
        secret: secret()?,
        plain: args.plain.clone(),
        session_timeout: args.session_timeout,
    });
    let instance = ServiceInstance {
        name: "rooms",
        port: PORT,
        tries: &[
            "ffmpeg -re -i FILE -c copy -f rtsp rtsp://{at}/ROOM/NAME",
            "ffplay rtsp://{at}/ROOM",
        ],
        service: &relay,
        state: &rooms,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar: crate::grammar,
        facts: &[],
    };
    let mut stats: Region<StreamStats> =
        Region::place(shape.placement()).context("cannot place the figures in memory")?;
    stats.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    let runner = PacedRunner::new((&relay, &*rooms), Sender::USUAL, &sockets, &stats);
    let others = sockets.fds().to_vec();
    let beside = Beside { extra: Some(&runner), others: &others, ..Beside::default() };
    let exit = args.server.run(&shape, &instance, beside, &mut Figures(&stats));
    report(&stats);
    exit
}
