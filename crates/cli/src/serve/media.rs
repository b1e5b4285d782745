//! `roundhouse serve media`: files of sound and pictures over RTSP and RTP.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use engines::status::Gauge;
use engines::{Assets, CastSockets, Casting, Handover, Keeper, Pacing, Sender};
use load::parse::span;
use memory::Region;
use seam::Instant;
use services::media::{Door, Media, Options, Orders};

use super::house::{HouseArgs, Tenant, usage};
use super::http::site::Site;

/// The port if nobody names one: RTSP's own needs a privilege.
const PORT: u16 = 8554;

/// The flags of the media service.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    house: HouseArgs,
    /// The folder to serve, or files of one folder [default: the present folder]
    #[arg(value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// Everybody sees the same moment, as of a broadcast: a file begins again when it ends, and who
    /// comes late joins where it is
    #[arg(long)]
    live: bool,
    /// A file begins again when it ends, for each client by itself
    #[arg(long = "loop")]
    repeat: bool,
    /// Ask for this name and password (Digest)
    #[arg(long, value_name = "USER:PASSWORD")]
    user: Option<UserFlag>,
    /// End a session of which nothing was heard for this long
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    session_timeout: Duration,
    /// The port of media by UDP, an even one; reports come to the next; 0 picks two
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    rtp_port: u16,
    /// Send within the connection only
    #[arg(long)]
    no_udp: bool,
    /// How packets wait for their moment and leave: plain, plain-abs, wheel-sendto, wheel-mmap,
    /// sendmmsg, gso, sendmmsg+gso (`roundhouse senders` explains them)
    #[arg(long, default_value_t = Sender::USUAL)]
    sender: Sender,
    /// Transmissions by UDP to one address at a time; 0: any number
    #[arg(long, default_value_t = Options::default().per_address, value_name = "N")]
    per_address: usize,
    /// How far a slow client may fall behind before it is sent on to what is due now
    #[arg(long, default_value = "3s", value_parser = span, value_name = "TIME")]
    debt: Duration,
    /// Keep files up to this many bytes in memory
    #[arg(long, default_value_t = Options::default().file_max, value_name = "BYTES")]
    file_max: u64,
}

/// What `--user` says.
#[derive(Clone, Debug)]
struct UserFlag(Door);

impl FromStr for UserFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<UserFlag, String> {
        match text.split_once(':') {
            Some((user, password)) if !user.is_empty() => {
                Ok(UserFlag(Door { user: user.to_owned(), password: password.to_owned() }))
            }
            _ => Err("expected USER:PASSWORD, found no name or no colon".to_owned()),
        }
    }
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = match args.house.shape() {
        Ok(shape) => shape,
        Err(refused) => return Ok(usage(&refused.to_string())),
    };
    let (dir, only) = match chosen(&args.paths) {
        Ok(chosen) => chosen,
        Err(reason) => return Ok(usage(&reason)),
    };
    let site = Site::open(&dir, false).with_context(|| {
        format!("cannot serve {}: expected a folder that can be read", dir.display())
    })?;
    let sockets = match args.no_udp {
        true => None,
        false => Some(CastSockets::bind(args.house.host, args.rtp_port).with_context(|| {
            format!("cannot send from port {} of {}", args.rtp_port, args.house.host)
        })?),
    };
    let options = Options {
        ports: sockets.as_ref().map(CastSockets::ports).transpose()?,
        door: args.user.map(|UserFlag(door)| door),
        secret: secret()?,
        wall: (Instant::from_ns(sys::clock::now_ns()), wall_ns()),
        live: args.live,
        repeat: args.repeat,
        only,
        session_timeout: args.session_timeout,
        per_address: if args.per_address == 0 { usize::MAX } else { args.per_address },
        debt: args.debt,
        file_max: args.file_max,
        ..Options::default()
    };
    let handover = Handover::receive()?;
    let mut orders: Region<Orders> = match &handover {
        Some(handover) => Region::adopt(handover.state()?).map_err(|refused| {
            anyhow!("cannot take the orders over: {refused}; the server before goes on serving")
        })?,
        None => Region::place(args.house.placement(&shape))
            .context("cannot place the orders in memory")?,
    };
    if handover.is_none() {
        orders.found(&options.secret).map_err(|bad| anyhow!("{bad}"))?;
    }
    let service = Media::new(options, site);
    let tenant = Tenant {
        name: "media",
        port: PORT,
        service: &service,
        state: &orders,
        assets: &Assets::default(),
        handover: handover.as_ref(),
    };
    let Some(sockets) = &sockets else {
        return args.house.run(&shape, &tenant, &mut Teller { pacing: None });
    };
    let mut pacing: Region<Pacing> =
        Region::place(shape.placement()).context("cannot place the figures in memory")?;
    pacing.found(&[]).map_err(|bad| anyhow!("{bad}"))?;
    let casting = Casting { caster: &service, sender: args.sender, sockets, pacing: &pacing };
    let mut teller = Teller { pacing: Some(&pacing) };
    let exit = args.house.run_with_caster(&shape, &tenant, &casting, &mut teller);
    tell(&pacing);
    exit
}

/// Says how punctual the house was, if it sent anything.
fn tell(pacing: &Pacing) {
    let ms = |share| pacing.quantile(share).map_or(0.0, |late| late.as_secs_f64() * 1e3);
    let packets = pacing.packets.read();
    if packets > 0 {
        let (failed, late) = (pacing.failed.read(), pacing.late.read());
        eprintln!(
            "{packets} packets in {} calls, {failed} not sent; lateness p50 {:.3} ms, p99 {:.3} \
             ms, p99.9 {:.3} ms, {late} later than 10 ms",
            pacing.calls.read(),
            ms(0.5),
            ms(0.99),
            ms(0.999)
        );
    }
}

/// Keeps nothing, and tells what casters are at.
struct Teller<'a> {
    pacing: Option<&'a Pacing>,
}

impl Keeper<Orders> for Teller<'_> {
    fn is_changed(&mut self, _orders: &Orders) -> bool {
        false
    }

    fn save(&mut self, _orders: &Orders) -> Result<(), String> {
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        None
    }

    fn gauges(&self, orders: &Orders) -> Vec<Gauge> {
        let gauge = |name: &str, help: &str, value: u64, is_total| Gauge {
            name: format!("media_{name}"),
            help: help.to_owned(),
            labels: Vec::new(),
            value: value as f64,
            is_total,
        };
        let set_up = orders.count() as u64;
        let mut gauges = vec![gauge("transmissions", "Tracks set up for UDP", set_up, false)];
        if let Some(pacing) = self.pacing {
            let us = |share| pacing.quantile(share).map_or(0, |late| late.as_micros() as u64);
            gauges.extend([
                gauge("casts", "Transmissions that run", pacing.running(), false),
                gauge("packets", "Packets that the kernel took", pacing.packets.read(), true),
                gauge("calls", "System calls that took them", pacing.calls.read(), true),
                gauge("failed", "Packets that could not leave", pacing.failed.read(), true),
                gauge("late", "Packets later than 10 ms", pacing.late.read(), true),
                gauge("reports", "Datagrams heard", pacing.heard.read(), true),
                gauge("lateness_p50_us", "Half were not later, in us", us(0.5), false),
                gauge("lateness_p99_us", "99 of 100 were not later, in us", us(0.99), false),
            ]);
        }
        gauges
    }
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

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Chance from the kernel.
fn secret() -> Result<[u8; 16]> {
    let mut secret = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut secret))
        .context("cannot read /dev/urandom, which names of sessions are drawn from")?;
    Ok(secret)
}

/// Nanoseconds since 1970.
fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
