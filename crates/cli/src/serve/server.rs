//! What every `serve` takes: where to listen, on which engine, within which limits; and what it
//! prints when it is ready.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use engines::{
    Accept, Admin, AdminHandler, Assets, Container, Control, ExtraWorker, Fault, Handover, Knobs,
    Ready, Refused, Renew, Report, Server, Shape, Staff, StateStore, Wait,
};
use memory::{Placement, Region};
use seam::Service;

use super::reload::Reloader;
use super::rings::{self, RingArgs};
use super::staff::StaffArgs;
use load::parse::span;
use tools::admin::{self, Front, Place};

/// The flags that every service has.
#[derive(clap::Args)]
pub struct ServerArgs {
    /// The engine: a named architecture, or `auto`
    #[arg(long, default_value = "auto", value_name = "NAME")]
    engine: String,
    /// Where the workers live: solo, helped, threads, processes, thread-per-connection,
    /// process-per-connection, hybrid (overrides the engine's)
    #[arg(long)]
    container: Option<Container>,
    /// Who takes a connection: shared, lock, exclusive, reuseport, handoff, pass (overrides the
    /// engine's)
    #[arg(long)]
    accept: Option<Accept>,
    /// How a worker waits: blocking, select, poll, epoll, uring, port (overrides the engine's)
    #[arg(long)]
    wait: Option<Wait>,
    #[command(flatten)]
    staff: StaffArgs,
    /// Connections that may wait between an acceptor and its workers (accept handoff)
    #[arg(long, value_name = "N")]
    handoff: Option<usize>,
    /// Threads that work on what would block a loop, for each; 0: the loop works in place and
    /// its other connections wait [default: 4 when they are needed, amped 16 beforehand]
    #[arg(long, value_name = "N")]
    helpers: Option<usize>,
    /// Edge-triggered readiness (epoll only)
    #[arg(long)]
    edge: bool,
    #[command(flatten)]
    rings: RingArgs,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) host: IpAddr,
    /// The port to listen on; 0 picks one [default: stock 6000]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Connections that may wait to be accepted [default: 4096] (ListenBacklog)
    #[arg(long, value_name = "N", alias = "ListenBacklog")]
    backlog: Option<u32>,
    /// Connections at one time; further ones wait to be accepted
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// End a connection on which nothing moves for this long
    #[arg(long, default_value = "1h", value_parser = span, value_name = "TIME")]
    idle: Duration,
    /// Ask a peer that has been silent for this long whether it is still there, and end the
    /// connection after twice the time; 0: never ask
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    keepalive: Duration,
    /// Cut off a peer that takes no reply for this long
    #[arg(long, default_value = "30s", value_parser = span, value_name = "TIME")]
    write_stall: Duration,
    /// Cut off a peer that takes waiting replies more slowly than this, in bytes a second; 0: never
    #[arg(long, default_value_t = Knobs::default().write_rate, value_name = "BYTES")]
    write_rate: u64,
    /// What the kernel may hold for a peer that has no room for it, in bytes beside what is on its
    /// way, until it has taken a MiB; 0: as much as a send buffer grows to (TCP_NOTSENT_LOWAT)
    #[arg(long, default_value_t = Knobs::default().unsent_max, value_name = "BYTES")]
    unsent_max: u32,
    /// How long a stop may take before it is forced
    #[arg(long, default_value = "10s", value_parser = span, value_name = "TIME")]
    drain: Duration,
    /// Where the server can be looked at and told what to do (`roundhouse top`, curl): a path, an
    /// address of this machine, or none [default: a socket in $XDG_RUNTIME_DIR, else in the
    /// temporary directory, named after the process]
    #[arg(long, value_name = "PLACE")]
    admin: Option<Place>,
    /// Let --admin be an address that other machines reach: whoever does can stop the server
    #[arg(long)]
    admin_anywhere: bool,
    /// Keep the state in shared memory, so that SIGUSR2 can hand it and the listeners over to the
    /// program's next version (where workers are processes it lies there anyway)
    #[arg(long)]
    upgradable: bool,
    /// Print each connection and request (stderr)
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Print the seconds from the first connection to the last disconnect (stderr)
    #[arg(long)]
    pub(crate) timer: bool,
}

impl ServerArgs {
    /// The point of the space that the flags name.
    ///
    /// # Errors
    /// A name that is none, or a combination that cannot be.
    pub fn shape(&self) -> Result<Shape, Refused> {
        let cores = sys::cpu::affinity().map_or(1, |cpus| cpus.len());
        let engine = match self.engine.as_str() {
            "auto" => {
                eprintln!("engine auto: epoll, which serves every workload and needs no privilege");
                "epoll"
            }
            name => name,
        };
        let mut shape = Shape::preset(engine, cores)?;
        if let Some(container) = self.container {
            // A preset's count belongs to its own container.
            shape.workers = Shape::usual_workers(container, cores);
            shape.container = container;
        }
        self.staff.apply(&mut shape)?;
        shape.accept = self.accept.unwrap_or(shape.accept);
        shape.wait = self.wait.unwrap_or(shape.wait);
        self.staff.man_port(&mut shape)?;
        let knobs = &mut shape.knobs;
        knobs.edge = self.edge;
        knobs.helpers = self.helpers;
        knobs.handoff = self.handoff;
        (knobs.ring, knobs.tactics) = self.rings.chosen();
        knobs.backlog = self.backlog.unwrap_or(knobs.backlog);
        knobs.sessions_max = self.max_connections.or(knobs.sessions_max);
        knobs.idle = self.idle;
        knobs.keepalive = self.keepalive;
        knobs.write_stall = self.write_stall;
        knobs.write_rate = self.write_rate;
        knobs.unsent_max = self.unsent_max;
        knobs.drain = self.drain;
        shape.check()?;
        if let Some(words) = self.staff.corrections(&shape) {
            eprintln!("{words}");
        }
        Ok(shape)
    }

    /// Puts what can change while workers serve into `shape`, as the flags say now.
    ///
    /// # Errors
    /// What is wrong with a file that the flags name, or with what they come to.
    pub fn renew(&self, shape: &mut Shape) -> Result<(), Refused> {
        let mut fresh = shape.clone();
        self.staff.apply(&mut fresh)?;
        let knobs = &mut fresh.knobs;
        knobs.sessions_max = self.max_connections.or(knobs.sessions_max);
        knobs.idle = self.idle;
        knobs.write_stall = self.write_stall;
        knobs.drain = self.drain;
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
        if self.upgradable { Placement::Shared } else { shape.placement() }
    }

    /// Serves until it is stopped.
    pub fn run<S: Service>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        self.run_renewed(shape, instance, store, None)
    }

    /// The same; `renew` is what each worker does before its next turn when the server was
    /// reloaded, with the number of the reload: reading certificates again belongs there.
    pub fn run_renewed<S: Service>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        store: &mut dyn StateStore<S::State>,
        renew: Option<&Renew<'_>>,
    ) -> Result<ExitCode> {
        self.run_by(shape, instance, (renew, &[]), |server, admin, ready| {
            engines::run_with(server, shape, store, admin, ready)
        })
    }

    /// The same with a worker more that serves no connections; `others` are the descriptors that
    /// a successor gets besides the listeners and the state.
    pub fn run_with_extra<S: Service>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        (extra, others): (&dyn ExtraWorker, &[BorrowedFd<'_>]),
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        self.run_by(shape, instance, (None, others), |server, admin, ready| {
            engines::run_with_extra(server, shape, extra, store, admin, ready)
        })
    }

    fn run_by<S: Service>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        (renew, others): (Option<&Renew<'_>>, &[BorrowedFd<'_>]),
        live: impl FnOnce(&Server<'_, S>, Admin<'_>, Announce<'_>) -> Result<Report, Fault>,
    ) -> Result<ExitCode> {
        let wish = self.admin.as_ref();
        let door = match admin::open(wish, self.admin_anywhere, instance.handover.is_some()) {
            Ok(door) => door,
            Err(reason) => return Ok(usage(&reason)),
        };
        let control = Control::new()?;
        let server = Server {
            service: instance.service,
            state: instance.state,
            assets: instance.assets,
            address: SocketAddr::new(self.host, self.port.unwrap_or(instance.port)),
            verbose: self.verbose,
            timer: self.timer,
            signals: true,
            control: &control,
            state_fd: instance.state.fd(),
            others,
            handover: instance.handover,
        };
        if shape.name() == Some("reactor") && shape.workers == 1 {
            eprintln!("reactor with one worker equals epoll: one loop, one listener");
        }
        let place = door.as_ref().map(Place::of);
        let mut announce = |ready: &Ready| announce(instance.name, shape, place.as_deref(), ready);
        let mut reloader = Reloader::new(shape)?;
        let handler = door.map(|door| {
            let front = Front { service: instance.name, address: door.address() };
            (door, Box::new(front) as Box<dyn AdminHandler>)
        });
        let admin = Admin { handler, reload: Some(Box::new(|| reloader.reload())), renew };
        match live(&server, admin, &mut announce) {
            Ok(report) => Ok(leave(&report)),
            Err(fault @ Fault::Refused(_)) => Ok(usage(&fault.to_string())),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// What is told when the server is ready.
type Announce<'a> = &'a mut dyn FnMut(&Ready);

/// Who lives in the server: a service with its state.
pub struct ServiceInstance<'a, S: Service> {
    pub name: &'static str,
    /// The port if nobody names one.
    pub port: u16,
    pub service: &'a S,
    pub state: &'a Region<S::State>,
    pub assets: &'a Assets,
    pub handover: Option<&'a Handover>,
}

/// Prints one line of JSON when the server can take connections: the readiness protocol of scripts
/// and of the laboratory.
fn announce(service: &str, shape: &Shape, admin: Option<&str>, ready: &Ready) {
    let line = serde_json::json!({
        "listening": ready.listening.to_string(),
        "service": service,
        "engine": shape.name(),
        "container": shape.container.to_string(),
        "accept": shape.accept.to_string(),
        "wait": shape.wait.to_string(),
        "workers": shape.workers,
        "running": (shape.wait == Wait::Port).then(|| shape.running()),
        "acceptors": shape.acceptors(),
        "helpers": shape.has_loops().then(|| shape.helpers()),
        "processes": shape.staffing().map(|staffing| {
            serde_json::json!({
                "policy": staffing.policy.to_string(),
                "threads": staffing.terms.size,
                "start": staffing.start,
                "most": staffing.terms.processes_max,
                "spare_min": staffing.terms.spare_min,
                "spare_max": staffing.terms.spare_max,
            })
        }),
        "rings": ready.rings.as_ref().map(rings::told),
        "admin": admin,
        "pid": std::process::id(),
    });
    println!("{line}");
}

fn leave(report: &Report) -> ExitCode {
    let Report { forced, replaced, accepted, refused, unsaved, .. } = report;
    let (spawned, retired, recycled) = (report.spawned, report.retired, report.recycled);
    if retired + recycled > 0 {
        eprintln!("{spawned} processes started, {retired} retired, {recycled} recycled");
    }
    let refused = if *refused > 0 { format!("{refused} refused, ") } else { String::new() };
    eprintln!("stopped after {accepted} connections, {refused}{replaced} workers replaced");
    if *forced || unsaved.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Says what is wrong with the command line.
pub fn usage(reason: &str) -> ExitCode {
    eprintln!("roundhouse: {reason}");
    ExitCode::from(2)
}
