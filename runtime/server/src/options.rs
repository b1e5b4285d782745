//! The flags of every server: address, engine, limits, administration, and the engine that they
//! make together.

pub mod library;
mod rings;
mod staff;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engines::governor::Mode;
use engines::{Accept, Address, Container, Handover, Knobs, Refused, Shape, Staff, Wait};
use memory::{Placement, Region};
use seam::Share;
use wire::conf::span;
use wire::http::host::is_origin;
use wire::websocket::{MessageKind, WebSocketOptions};

use crate::admin::Place;
use crate::certificate::CertificateArgs;
use crate::config::ConfigArg;
use rings::RingArgs;
pub(crate) use rings::report as rings_report;
use staff::StaffArgs;

/// The flags that every service has.
#[derive(clap::Args)]
pub struct ServerArgs {
    /// The engine: a name from `roundhouse engines`, or `auto`
    #[arg(long, default_value = "auto", value_name = "NAME")]
    engine: String,
    /// The address to listen on; a name of it, such as localhost, of which the first IPv4 address
    /// counts, or else the first IPv6 address; or unix:PATH, a socket in the file system
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: Host,
    /// Permissions of the socket of --host unix:PATH, in octal, such as 660 [default: the umask's]
    #[arg(long, value_name = "MODE", value_parser = octal)]
    socket_mode: Option<u32>,
    /// The port to listen on; 0 picks one
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    #[command(flatten)]
    _config: ConfigArg,
    #[command(flatten)]
    axes: AxisArgs,
    #[command(flatten)]
    staff: StaffArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// How the server is watched.
    #[command(flatten)]
    pub watch: WatchArgs,
    /// The certificate that it shows.
    #[command(flatten)]
    pub certificate: CertificateArgs,
    #[command(flatten)]
    websocket: WebSocketArgs,
    #[command(flatten)]
    rings: RingArgs,
}

/// How pages reach the service.
#[derive(clap::Args)]
#[command(next_help_heading = "WebSocket")]
struct WebSocketArgs {
    /// Speak WebSocket (RFC 6455), so that pages of browsers are clients: a message is a line, or
    /// bytes, of the service's own protocol
    #[arg(long)]
    websocket: bool,
    /// The type of messages: text (each a line, also without its newline) or binary [default: text
    /// for a service of lines]
    #[arg(long, value_name = "KIND", requires = "websocket")]
    websocket_messages: Option<MessageKind>,
    /// Let pages of this origin connect, or all with *; may be repeated [default: pages of the
    /// address that they connect to]
    #[arg(long, value_name = "ORIGIN", requires = "websocket", value_parser = origin)]
    websocket_origin: Vec<String>,
}

fn origin(text: &str) -> Result<String, String> {
    if matches!(text, "*" | "null") || is_origin(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected *, null (a page of a file) or an origin without a path, in lower case, such as \
         https://example.org, found `{text}`"
    ))
}

/// The architecture's axes, and how its loops work.
#[derive(clap::Args)]
#[command(next_help_heading = "Architecture")]
struct AxisArgs {
    /// Where workers live: solo, helped, threads, processes, thread-per-connection,
    /// process-per-connection, hybrid [default: the engine's]
    #[arg(long)]
    container: Option<Container>,
    /// How workers get connections: shared, lock, exclusive, reuseport, handoff, pass [default: the
    /// engine's]
    #[arg(long)]
    accept: Option<Accept>,
    /// How a worker waits: blocking, select, poll, epoll, uring, port [default: the engine's]
    #[arg(long)]
    wait: Option<Wait>,
    /// Connections that may wait between an acceptor and its workers (accept handoff)
    #[arg(long, value_name = "N")]
    handoff: Option<usize>,
    /// Helper threads of each loop, for work that would block it; 0: the loop does the work itself
    /// and its other connections wait [default: 4, started when needed; amped: 16, at the start]
    #[arg(long, value_name = "N")]
    helpers: Option<usize>,
    /// Edge-triggered readiness (epoll only)
    #[arg(long)]
    edge: bool,
}

/// Limits of a client, in size and time.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Length of the kernel's accept queue [default: 4096] (ListenBacklog)
    #[arg(long, value_name = "N", alias = "ListenBacklog")]
    backlog: Option<u32>,
    /// Connections at one time; more wait in the accept queue
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Close a connection on which nothing moves for this long
    #[arg(long, default_value = "1h", value_parser = span, value_name = "TIME")]
    idle: Duration,
    /// Close a connection whose client takes longer than this for one request, from its first byte
    /// to its last
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    request_time: Duration,
    /// Probe a peer that has been silent for this long, and close the connection after twice the
    /// time without an answer; 0: never probe (SO_KEEPALIVE)
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    keepalive: Duration,
    /// Cut off a client that accepts no output for this long
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    write_stall: Duration,
    /// Cut off a client that accepts waiting output more slowly than this over the time of
    /// --write-stall, in bytes a second; 0: never
    #[arg(long, default_value_t = Knobs::default().write_rate, value_name = "BYTES")]
    write_rate: u64,
    /// Memory for the waiting input and output of all connections, in bytes; above it the server
    /// closes those that hold most for longest; 0: any [default: a quarter of the memory of the
    /// machine or the control group]
    #[arg(long, value_name = "BYTES")]
    memory_max: Option<u64>,
    /// Unsent bytes that the kernel may hold for a connection until the client has accepted a MiB;
    /// 0: as many as its send buffer takes (TCP_NOTSENT_LOWAT)
    #[arg(long, default_value_t = Knobs::default().unsent_max, value_name = "BYTES")]
    unsent_max: u32,
    /// Under overload, refuse requests that could not be answered in time: off, advise (decide and
    /// report only) or on; for http, files, stock and media, on engines with no --wait port
    #[arg(long, default_value = "off", value_name = "MODE")]
    governor: Mode,
    /// The response time that --governor holds
    #[arg(long, default_value = "100ms", value_parser = span, value_name = "TIME")]
    deadline: Duration,
    /// How long a stop may take before it is forced
    #[arg(long, default_value = "10s", value_parser = span, value_name = "TIME")]
    drain: Duration,
}

/// How the server is watched, ordered about and replaced.
#[derive(clap::Args)]
#[command(next_help_heading = "Administration")]
pub struct WatchArgs {
    /// Where `roundhouse top`, curl and Prometheus find the server: the path of a socket, an
    /// address of this machine, or none [default: a socket named after the process, in
    /// $XDG_RUNTIME_DIR, else in the temporary directory]
    #[arg(long, value_name = "PLACE")]
    pub(crate) admin: Option<Place>,
    /// Let --admin be an address that other machines reach; any of them can then stop the server
    #[arg(long)]
    pub(crate) admin_anywhere: bool,
    /// Keep the state in shared memory, so that SIGUSR2 can hand it and the listeners over to the
    /// program's next version (worker processes share it anyway)
    #[arg(long)]
    upgradable: bool,
    /// Say in JSON that the server is ready, also on a terminal
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors (stderr); wins over --verbose
    #[arg(long)]
    pub quiet: bool,
    /// Print each connection, request and step (stderr)
    #[arg(long)]
    pub verbose: bool,
    /// Print the seconds from the first connection to the last disconnect (stderr)
    #[arg(long)]
    pub timer: bool,
}

/// The value of `--host`.
#[derive(Clone, Debug)]
enum Host {
    Net(IpAddr),
    Unix(PathBuf),
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        match text.strip_prefix("unix:") {
            None => named(text).map(Host::Net),
            Some(path) => std::path::absolute(path)
                .map(Host::Unix)
                .map_err(|error| format!("expected a path after `unix:`, found `{path}`: {error}")),
        }
    }
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("expected permissions in octal, such as 660, found `{text}`"))
}

/// The address that `text` is or names.
fn named(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse() {
        return Ok(address);
    }
    let found = (text, 0).to_socket_addrs().map_err(|error| {
        format!("expected an address or a name of one, found `{text}`: {error}")
    })?;
    let first = found.map(|it| it.ip()).min_by_key(IpAddr::is_ipv6);
    first.ok_or_else(|| format!("expected a name with an address, found `{text}`"))
}

impl ServerArgs {
    /// The Internet address of `--host`, without its port.
    ///
    /// # Errors
    /// It is a path.
    pub fn ip(&self) -> Result<IpAddr, Refused> {
        match &self.host {
            Host::Net(address) => Ok(*address),
            Host::Unix(_) => Err(Refused(
                "expected an Internet address as --host, because this server sends packets".into(),
            )),
        }
    }

    /// The WebSocket that the flags put around a service which is `usual` without further flags;
    /// `None` without `--websocket`.
    pub fn websocket(&self, usual: impl Into<WebSocketOptions>) -> Option<WebSocketOptions> {
        let WebSocketArgs { websocket, websocket_messages, websocket_origin } = &self.websocket;
        let usual = usual.into();
        let messages = websocket_messages.unwrap_or(usual.messages);
        let origins = [&usual.origins[..], websocket_origin].concat();
        websocket.then_some(WebSocketOptions { messages, origins, ..usual })
    }

    /// Refuses `--websocket`, and with `tls` also `--tls-cert`.
    ///
    /// # Errors
    /// The flag, with the reason.
    pub fn refuse_layers(&self, tls: bool, why: &str) -> Result<(), Refused> {
        let flags = [
            (self.websocket.websocket, "--websocket"),
            (tls && self.certificate.is_set(), "--tls-cert"),
        ];
        let found = flags.iter().find(|(is_set, _)| *is_set);
        found.map_or(Ok(()), |(_, flag)| Err(Refused(format!("{flag} is refused: {why}"))))
    }

    /// The address to listen on; `port` is the default.
    pub(crate) fn address(&self, port: u16) -> Address {
        match &self.host {
            Host::Net(host) => SocketAddr::new(*host, self.port.unwrap_or(port)).into(),
            Host::Unix(path) => Address::Unix(path.clone(), self.socket_mode),
        }
    }

    /// The point of the space that the flags name.
    ///
    /// # Errors
    /// A name that is none, or a combination that cannot be.
    pub fn shape(&self) -> Result<Shape, Refused> {
        if self.socket_mode.is_some() && matches!(self.host, Host::Net(_)) {
            return Err(Refused("--socket-mode needs --host unix:PATH".to_owned()));
        }
        let cores = sys::cpu::affinity().map_or(1, |cpus| cpus.len());
        let engine = match self.engine.as_str() {
            "auto" => {
                language::info!(
                    "engine auto: epoll, which serves every workload and needs no privilege"
                );
                "epoll"
            }
            name => name,
        };
        let mut shape = Shape::preset(engine, cores)?;
        if let Some(container) = self.axes.container {
            // A preset's count belongs to its own container.
            shape.workers = Shape::usual_workers(container, cores);
            shape.container = container;
        }
        self.staff.apply(&mut shape)?;
        shape.accept = self.axes.accept.unwrap_or(shape.accept);
        shape.wait = self.axes.wait.unwrap_or(shape.wait);
        self.staff.man_port(&mut shape)?;
        let knobs = &mut shape.knobs;
        knobs.edge = self.axes.edge;
        knobs.helpers = self.axes.helpers;
        knobs.handoff = self.axes.handoff;
        (knobs.ring, knobs.tactics) = self.rings.chosen();
        let limits = &self.limits;
        knobs.backlog = limits.backlog.unwrap_or(knobs.backlog);
        knobs.sessions_max = limits.max_connections.or(knobs.sessions_max);
        knobs.idle = limits.idle;
        (knobs.request_time, knobs.keepalive) = (limits.request_time, limits.keepalive);
        knobs.write_stall = limits.write_stall;
        knobs.write_rate = limits.write_rate;
        knobs.memory_max = limits.memory_max.unwrap_or_else(|| sys::limits::memory() / 4);
        knobs.unsent_max = limits.unsent_max;
        knobs.drain = limits.drain;
        (knobs.governor, knobs.objective) = (limits.governor, limits.deadline);
        shape.check()?;
        if let Some(words) = self.staff.corrections(&shape) {
            language::info!("{words}");
        }
        Ok(shape)
    }

    /// Puts the settings that can change while workers serve into `shape`.
    ///
    /// # Errors
    /// A file that the flags name has a mistake, or the settings do not fit together.
    pub fn renew(&self, shape: &mut Shape) -> Result<(), Refused> {
        let mut fresh = shape.clone();
        self.staff.apply(&mut fresh)?;
        let (knobs, limits) = (&mut fresh.knobs, &self.limits);
        knobs.sessions_max = limits.max_connections.or(knobs.sessions_max);
        knobs.idle = limits.idle;
        knobs.write_stall = limits.write_stall;
        knobs.drain = limits.drain;
        fresh.check()?;
        let Staff { spare_min, spare_max, .. } = fresh.knobs.staff;
        shape.knobs.staff = Staff { spare_min, spare_max, ..shape.knobs.staff };
        shape.knobs.sessions_max = fresh.knobs.sessions_max;
        shape.knobs.idle = fresh.knobs.idle;
        shape.knobs.write_stall = fresh.knobs.write_stall;
        shape.knobs.drain = fresh.knobs.drain;
        Ok(())
    }

    /// Where the state must lie.
    pub fn placement(&self, shape: &Shape) -> Placement {
        if self.watch.upgradable { Placement::Shared } else { shape.placement() }
    }

    /// Memory for the state that `what` names: the predecessor's, or fresh memory for the caller to
    /// fill.
    ///
    /// # Errors
    /// There is no memory, or the predecessor's has another layout.
    pub fn state<T: Share>(
        &self,
        shape: &Shape,
        handover: Option<&Handover>,
        what: &str,
    ) -> Result<Region<T>> {
        match handover {
            Some(handover) => Region::adopt(handover.state()?).map_err(|refused| {
                anyhow!("cannot take the {what} over: {refused}; the predecessor goes on serving")
            }),
            None => Region::place(self.placement(shape))
                .with_context(|| format!("cannot place the {what} in memory")),
        }
    }
}
