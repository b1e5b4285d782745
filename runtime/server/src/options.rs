//! The flags of every server, and the shape that they make together.
//!
//! The settings of engines come from their table ([`knobs`]). The flags here belong to the process
//! around them: address, engine, administration, TLS, WebSocket. A flag that few users need is
//! hidden from the short help (`hide_short_help`); `--help-all` shows it.

pub mod console;
mod knobs;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use clap::builder::{Resettable, Str};
use engines::{Accept, Address, Container, Handover, Refused, Shape, Wait};
use memory::{Placement, Region};
use seam::Share;
use sys::rights::User;
use wire::http::host::is_origin;
use wire::websocket::{MessageKind, WebSocketOptions};

use crate::admin::Place;
use crate::certificate::CertificateArgs;
use crate::config::ConfigArg;
pub(crate) use knobs::KnobArgs;
#[cfg(test)]
pub(crate) use knobs::other;

/// Flags after those of a heading keep it; these have none.
const NO_HEADING: Resettable<Str> = Resettable::Reset;

/// The flags that every service has.
#[derive(clap::Args)]
pub struct ServerArgs {
    /// The engine: a name from `roundhouse engines`, or `auto`
    #[arg(long, default_value = "auto", value_name = "NAME", help_heading = NO_HEADING)]
    engine: String,
    /// The address to listen on; a name of it, such as localhost, of which the first IPv4 address
    /// counts, or else the first IPv6 address; or unix:PATH, a socket in the file system
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS", alias = "ip-address")]
    #[arg(help_heading = NO_HEADING)]
    host: Host,
    /// Permissions of the sockets of unix:PATH, in octal, such as 660 [default: the umask's]
    #[arg(long, value_name = "MODE", value_parser = octal, hide_short_help = true)]
    #[arg(help_heading = NO_HEADING)]
    socket_mode: Option<u32>,
    /// The port to listen on; 0 picks one
    #[arg(long, short, value_name = "PORT", alias = "server-port", help_heading = NO_HEADING)]
    pub port: Option<u16>,
    /// Listen here too: ADDRESS:PORT, such as [::]:80, or unix:PATH; may be repeated
    #[arg(long, value_name = "ADDRESS", value_parser = listener, help_heading = NO_HEADING)]
    listen: Vec<Address>,
    /// Become this user once the server listens; it starts as root, for ports below 1024
    #[arg(long, value_name = "NAME[:GROUP]", value_parser = user, help_heading = NO_HEADING)]
    #[arg(hide_short_help = true)]
    pub(crate) run_as: Option<User>,
    #[command(flatten)]
    _config: ConfigArg,
    #[command(flatten)]
    axes: AxisArgs,
    /// Number of workers; where they come and go, the most at once (MaxRequestWorkers)
    /// [default: the engine's]
    #[arg(long, value_name = "N", help_heading = "Workers")]
    #[arg(aliases = ["MaxRequestWorkers", "MaxClients", "worker-thread", "worker-threads"])]
    workers: Option<usize>,
    /// The settings of the engine.
    #[command(flatten)]
    pub knobs: KnobArgs,
    /// How the server is watched.
    #[command(flatten)]
    pub watch: WatchArgs,
    /// The certificate that it shows.
    #[command(flatten)]
    pub certificate: CertificateArgs,
    #[command(flatten)]
    websocket: WebSocketArgs,
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
    #[arg(long, value_name = "KIND", requires = "websocket", hide_short_help = true)]
    websocket_messages: Option<MessageKind>,
    /// Let pages of this origin connect, or all with *; may be repeated [default: pages of the
    /// address that they connect to]
    #[arg(long, value_name = "ORIGIN", requires = "websocket", value_parser = origin)]
    #[arg(hide_short_help = true)]
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

/// The architecture's axes.
#[derive(clap::Args)]
#[command(next_help_heading = "Architecture")]
struct AxisArgs {
    /// Where workers live: solo, helped, threads, processes, thread-per-connection,
    /// process-per-connection, hybrid [default: the engine's]
    #[arg(long, hide_short_help = true)]
    container: Option<Container>,
    /// How workers get connections: shared, lock, exclusive, reuseport, handoff, pass [default: the
    /// engine's]
    #[arg(long, hide_short_help = true)]
    accept: Option<Accept>,
    /// How a worker waits: blocking, select, poll, epoll, coroutine, tokio-local, tokio-steal,
    /// uring, parked, leader, staged, port, bypass [default: the engine's]
    #[arg(long, hide_short_help = true)]
    wait: Option<Wait>,
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
    #[arg(long, hide_short_help = true)]
    pub(crate) admin_anywhere: bool,
    /// Keep the state in shared memory, so that SIGUSR2 can hand it and the listeners over to the
    /// program's next version (worker processes share it anyway)
    #[arg(long, hide_short_help = true)]
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
    #[arg(long, hide_short_help = true)]
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

/// The value of `--listen`.
fn listener(text: &str) -> Result<Address, String> {
    if text.starts_with("unix:") {
        let Host::Unix(path) = text.parse()? else { unreachable!("a path follows `unix:`") };
        return Ok(Address::Unix(path, None));
    }
    let parsed = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parsed.ok_or_else(|| {
        format!("expected ADDRESS:PORT, such as [::]:80, or unix:PATH, found `{text}`")
    })?;
    Ok(SocketAddr::new(named(host)?, port).into())
}

fn user(text: &str) -> Result<User, String> {
    User::find(text).map_err(|error| error.to_string())
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
            (tls && self.certificate.tls_cert.is_some(), "--tls-cert"),
        ];
        let found = flags.iter().find(|(is_set, _)| *is_set);
        found.map_or(Ok(()), |(_, flag)| Err(Refused(format!("{flag} is refused: {why}"))))
    }

    /// The addresses to listen on; `port` is the default of the first.
    pub(crate) fn addresses(&self, port: u16) -> Vec<Address> {
        let first = match &self.host {
            Host::Net(host) => SocketAddr::new(*host, self.port.unwrap_or(port)).into(),
            Host::Unix(path) => Address::Unix(path.clone(), None),
        };
        let with_mode = |address| match address {
            Address::Unix(path, _) => Address::Unix(path, self.socket_mode),
            net => net,
        };
        std::iter::once(first).chain(self.listen.iter().cloned()).map(with_mode).collect()
    }

    /// The paths of those in the file system.
    pub(crate) fn socket_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.addresses(0).into_iter().filter_map(|address| match address {
            Address::Unix(path, _) => Some(path),
            Address::Net(_) => None,
        })
    }

    /// The point of the space that the flags name.
    ///
    /// # Errors
    /// A name that is none, or a combination that cannot be.
    pub fn shape(&self) -> Result<Shape, Refused> {
        if self.socket_mode.is_some() && self.socket_paths().next().is_none() {
            return Err(Refused("--socket-mode needs --host or --listen unix:PATH".to_owned()));
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
        shape.workers = self.workers.unwrap_or(shape.workers);
        shape.accept = self.axes.accept.unwrap_or(shape.accept);
        shape.wait = self.axes.wait.unwrap_or(shape.wait);
        shape.knobs = self.knobs.0.clone();
        shape.knobs.limits.memory_max.get_or_insert_with(|| sys::limits::memory() / 4);
        self.man_port(&mut shape)?;
        shape.check()?;
        if let Some(words) = correction(&shape) {
            language::info!("{words}");
        }
        Ok(shape)
    }

    /// Makes a port's threads its workers.
    fn man_port(&self, shape: &mut Shape) -> Result<(), Refused> {
        if shape.wait != Wait::Port {
            return Ok(());
        }
        let Some(threads) = shape.knobs.staff.threads.take() else { return Ok(()) };
        if let Some(workers) = self.workers.filter(|workers| *workers != threads) {
            return Err(Refused(format!(
                "a port's workers are its threads, found --threads {threads} and --workers \
                 {workers}: leave one of them out"
            )));
        }
        shape.workers = threads;
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

/// The correction of --spare-max, if there is one, for the user.
fn correction(shape: &Shape) -> Option<String> {
    let (wanted, in_force) = (shape.knobs.staff.spare_max?, shape.staffing()?.terms.spare_max);
    (wanted != in_force).then(|| {
        format!(
            "--spare-max {wanted} is taken as {in_force}: the least spare and one process more, or \
             each new process would be one too many"
        )
    })
}
