//! `roundhouse serve media`: files of sound and pictures over RTSP and RTP.
//!
//! Two halves share one region of memory, the orders: the RTSP service in the engine's workers, and
//! a `PacedRunner` in an extra worker that sends the datagrams. This file opens what both need
//! (folder, sockets, orders) or takes it over from a predecessor. Without UDP there is no extra
//! worker, and all packets leave interleaved with their connections.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use ::media::{Credentials, Groups, Media, Options, Orders};
use anyhow::{Context, Result, anyhow};
use engines::{Assets, ExtraWorker, Handover, Refused, Shape};
use memory::Region;
use pacing::{Classes, PacedRunner, Sender, StreamSockets, StreamStats};

use server::{Beside, ServerArgs, ServiceInstance};
use tools::senders::RankArgs;
use tools::serve::site::Site;
use tools::serve::streams::{StreamMetrics, report};
use tools::serve::{WALL_CLOCK, folder_of, secret};
use wire::conf::span;

/// The default port: RTSP's own needs a privilege.
const PORT: u16 = 8554;

/// The flags of the media service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("8554")))]
pub struct Args {
    /// The folder to serve, or files of one folder [default: the present folder]
    #[arg(value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// All clients see the same moment, as of a broadcast: a file begins again when it ends, and
    /// late clients join where it is
    #[arg(long)]
    live: bool,
    /// A file begins again when it ends, for each client by itself
    #[arg(long = "loop")]
    repeat: bool,
    /// Require this name and password (Digest), or those of a file's first line, which no list of
    /// processes shows
    #[arg(long, value_name = "NAME:PASSWORD|@FILE")]
    user: Option<UserFlag>,
    /// End a session without request or report for this long
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    session_timeout: Duration,
    /// The even port of media by UDP; reports use the next; 0 picks two
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    rtp_port: u16,
    /// Send interleaved with the connection only
    #[arg(long)]
    no_udp: bool,
    /// Offer multicast: the first title requested that way goes to this group, each further one to
    /// the next address
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with = "no_udp")]
    group: Option<GroupFlag>,
    /// The TTL of packets to a group; 1 stays in this network
    #[arg(long, default_value_t = 1, value_name = "HOPS", hide_short_help = true)]
    ttl: u8,
    /// Send by UDP to groups only
    #[arg(long, requires = "group", hide_short_help = true)]
    group_only: bool,
    /// How packets wait for their moment and leave (`roundhouse senders` explains them)
    #[arg(long, default_value_t = Sender::USUAL)]
    sender: Sender,
    #[command(flatten)]
    rank: RankArgs,
    /// Audio leaves before video (`on`), or packets by time alone (`off`); limits in ms, such as
    /// `audio=60,video=200`, also drop packets that are later
    #[arg(long, default_value_t, value_name = "on|off|CLASS=MS,…", hide_short_help = true)]
    classes: Classes,
    /// Most streams by UDP to one address at a time; 0: no limit
    #[arg(long, default_value_t = Options::default().per_address, value_name = "N")]
    #[arg(hide_short_help = true)]
    per_address: usize,
    /// How far a slow client may fall behind before it skips to what is due now
    #[arg(long, default_value = "3s", value_parser = span, value_name = "TIME")]
    #[arg(hide_short_help = true)]
    debt: Duration,
    /// Keep files up to this many bytes in memory
    #[arg(long, default_value_t = Options::default().file_max, value_name = "BYTES")]
    #[arg(hide_short_help = true)]
    file_max: u64,
    #[command(flatten)]
    server: ServerArgs,
}

/// The value of `--group`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupFlag(SocketAddr);

/// The default port of a group: the one that players try.
const GROUP_PORT: u16 = 5004;

impl FromStr for GroupFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupFlag, String> {
        let address = text.parse::<SocketAddr>().or_else(|_| {
            text.parse::<IpAddr>().map(|address| SocketAddr::new(address, GROUP_PORT))
        });
        match address {
            Ok(address) if address.ip().is_multicast() && address.port() % 2 == 0 => {
                Ok(GroupFlag(address))
            }
            _ => Err(format!(
                "expected a multicast address and an even port, such as 239.77.0.1:5004, found \
                 `{text}`"
            )),
        }
    }
}

/// The value of `--user`.
#[derive(Clone, Debug)]
struct UserFlag(Credentials);

impl FromStr for UserFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<UserFlag, String> {
        let (user, password) = tools::play::login(text).map_err(|error| format!("{error:#}"))?;
        Ok(UserFlag(Credentials { user, password }))
    }
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    args.server.refuse_layers(true, "players speak RTSP, and media leave by UDP")?;
    let shape = args.server.shape()?;
    let (dir, only) = chosen(&args.paths).map_err(Refused)?;
    if let Some(reason) = ungrouped(&args) {
        return Err(Refused(reason).into());
    }
    let site = Site::open(&dir, false).with_context(|| {
        format!("cannot serve {}: expected a folder that can be read", dir.display())
    })?;
    let handover = Handover::receive()?;
    let passed = handover.as_ref().map(Handover::others).transpose()?.unwrap_or_default();
    let sockets = match args.no_udp {
        true => None,
        false => Some(sockets(&args, passed)?),
    };
    let orders = orders(&args, &shape, handover.as_ref())?;
    let options = Options {
        ports: sockets.as_ref().map(StreamSockets::ports).transpose()?,
        secret: orders.secret(),
        only,
        ..choices(&args)
    };
    let service = Media::new(options, site);
    let instance = ServiceInstance {
        name: "media",
        port: PORT,
        tries: &["roundhouse play rtsp://{at}/NAME", "ffplay rtsp://{at}/NAME"],
        service: &service,
        state: &orders,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar: crate::grammar,
        facts: &[],
    };
    let mut stats: Region<StreamStats> =
        Region::place(shape.placement()).context("cannot place the figures in memory")?;
    stats.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    let runner = sockets.as_ref().map(|sockets| {
        let runner = PacedRunner::new((&service, &*orders), args.sender, sockets, &stats);
        PacedRunner { rank: args.rank.rank(), classes: args.classes, ..runner }
    });
    let beside = Beside {
        extra: runner.as_ref().map(|runner| runner as &dyn ExtraWorker),
        others: &sockets.iter().flat_map(StreamSockets::fds).collect::<Vec<_>>(),
        ..Beside::default()
    };
    let exit = args.server.run(&shape, &instance, beside, &mut StreamMetrics { stats: &stats });
    report(&stats, orders.skipped());
    exit
}

/// The orders: the predecessor's, or none yet.
fn orders(args: &Args, shape: &Shape, handover: Option<&Handover>) -> Result<Region<Orders>> {
    let mut orders: Region<Orders> = args.server.state(shape, handover, "orders")?;
    if handover.is_none() {
        orders.init(&secret()?).map_err(|bad| anyhow!("{bad}"))?;
    }
    Ok(orders)
}

/// The options that the flags set by themselves.
fn choices(args: &Args) -> Options {
    Options {
        groups: args.group.map(|GroupFlag(first)| Groups {
            first: first.ip(),
            port: first.port(),
            ttl: args.ttl,
            only: args.group_only,
        }),
        credentials: args.user.clone().map(|UserFlag(it)| it),
        wall: WALL_CLOCK,
        live: args.live,
        repeat: args.repeat,
        session_timeout: args.session_timeout,
        per_address: if args.per_address == 0 { usize::MAX } else { args.per_address },
        debt: args.debt,
        file_max: args.file_max,
        from_files: args.sender.row().sends_files,
        ..Options::default()
    }
}

/// The sockets of datagrams: the predecessor's, if there was one.
fn sockets(args: &Args, passed: Vec<OwnedFd>) -> Result<StreamSockets> {
    let host = args.server.ip()?;
    let opened = match <[OwnedFd; 2]>::try_from(passed) {
        Ok([rtp, rtcp]) => StreamSockets::adopt(rtp, rtcp),
        Err(_) => StreamSockets::bind(host, args.rtp_port),
    };
    let sockets =
        opened.with_context(|| format!("cannot send from port {} of {host}", args.rtp_port))?;
    if args.group.is_some() {
        sockets.set_multicast(args.ttl, Some(host)).context("cannot send to groups")?;
    }
    Ok(sockets)
}

/// The error of a group of another family than the server's own address.
fn ungrouped(args: &Args) -> Option<String> {
    let (host, GroupFlag(first)) = (args.server.ip().ok()?, args.group?);
    let fits = first.is_ipv4() == host.is_ipv4();
    (!fits).then(|| format!("expected a group that {host} can send to, found {}", first.ip()))
}

/// The folder, and the files of it that are served if not all are.
fn chosen(paths: &[PathBuf]) -> Result<(PathBuf, Vec<String>), String> {
    let folder = match paths {
        [] => return Ok((PathBuf::from("."), Vec::new())),
        [one] if one.is_dir() => return Ok((one.clone(), Vec::new())),
        [first, ..] => folder_of(first),
    };
    let mut only = Vec::new();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str());
        match name {
            Some(name) if path.is_file() && folder_of(path) == folder => only.push(name.to_owned()),
            _ if !path.exists() => {
                return Err(format!("expected a folder or a file, found no {}", path.display()));
            }
            _ => {
                return Err(format!(
                    "expected one folder, or files of one folder, found {}",
                    path.display()
                ));
            }
        }
    }
    Ok((folder.to_path_buf(), only))
}
