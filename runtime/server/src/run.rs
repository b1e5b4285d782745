//! From the options to a running server: its administration, its reloads, the line that it prints
//! when it is ready, and its exit code.
//!
//! Every program that serves builds a `ServiceInstance` and calls `run_layered`, which wraps the
//! service in WebSocket and TLS as the flags demand, or `run` directly. `run` opens the
//! administration, collects what the host provides (address, files, inherited descriptors), and
//! calls `engines::run`, which returns when the server has stopped. In between the supervisor calls
//! three closures of this file: `announce` when clients can connect, `reload` at SIGHUP, and a
//! pulse for systemd. The ready line on stdout is an interface: scripts and the laboratory wait for
//! it.

use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use ::layers::tls::Tls;
use ::layers::websocket::WebSocket;
use anyhow::Result;
use engines::{
    Admin, AdminHandler, Assets, Control, ExtraWorker, Fault, Handover, Host, Pulse, Refused,
    Renew, Report, Server, Shape, Started, StateStore, Wait,
};
use memory::Region;
use seam::Service;
use sys::output::Output;
use sys::rights;
use wire::websocket::WebSocketOptions;

use crate::admin::{self, Front, Place};
use crate::certificate::{self, Certificates};
use crate::notify::{self, Manager};
use crate::options::ServerArgs;
use crate::reload::Reloader;
use crate::welcome::welcome;

/// A service with its state, ready to be served.
pub struct ServiceInstance<'a, S: Service> {
    /// Its name in the ready line and in metrics.
    pub name: &'static str,
    /// The port without --port.
    pub port: u16,
    /// Commands that a person on a terminal may try, with `{at}` for the address.
    pub tries: &'static [&'static str],
    /// The service.
    pub service: &'a S,
    /// Its state.
    pub state: &'a Region<S::State>,
    /// Files that it sends from.
    pub assets: &'a Assets,
    /// The predecessor, if the server takes over from one.
    pub handover: Option<&'a Handover>,
    /// The grammar of this program's command line, which a reload parses again.
    pub grammar: fn() -> clap::Command,
    /// Further fields of the ready line: names and values.
    pub facts: &'a [(&'static str, &'static str)],
}

impl<'a, S: Service> ServiceInstance<'a, S> {
    /// The same with a service around this one.
    pub fn around<'b, T: Service<State = S::State>>(&self, service: &'b T) -> ServiceInstance<'b, T>
    where
        'a: 'b,
    {
        let Self { name, port, tries, state, assets, handover, grammar, facts, .. } = *self;
        ServiceInstance { name, port, tries, service, state, assets, handover, grammar, facts }
    }
}

/// Parts of a server next to its service and its state.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// A worker that serves no connections.
    pub extra: Option<&'a dyn ExtraWorker>,
    /// The protocols that the service itself speaks, for ALPN, the preferred one first.
    pub protocols: &'a [&'a str],
    /// Descriptors that a successor inherits in addition to the listeners and the state.
    pub others: &'a [BorrowedFd<'a>],
    /// Each worker calls it with the number of the reload before its next turn, to read
    /// certificates again.
    pub renew: Option<&'a Renew<'a>>,
    /// The files that the service writes to, if it says so: `--run-as` gives them to the user, and
    /// the server can then write beneath no other folders than theirs.
    pub writes: Option<&'a [PathBuf]>,
}

impl ServerArgs {
    /// [`ServerArgs::run`] in the layers that the flags put around the service: WebSocket, which
    /// [`ServerArgs::websocket`] has made, and TLS around both.
    pub fn run_layered<S: Service + Send + 'static>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, Arc<S>>,
        websocket: Option<WebSocketOptions>,
        beside: Beside<'_>,
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        let service = Arc::clone(instance.service);
        let Some(options) = websocket else {
            return self.run_sealed(shape, instance, service, beside, store);
        };
        let beside = Beside { protocols: certificate::HTTP, ..beside };
        self.run_sealed(shape, instance, WebSocket::new(service, options), beside, store)
    }

    /// Serves `inner` in place of the instance's service, in TLS if there is a certificate.
    fn run_sealed<S: Service, T: Service<State = S::State> + 'static>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        inner: T,
        beside: Beside<'_>,
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        let certificates = Certificates::new(&self.certificate, std::iter::empty());
        match certificates.keys(beside.protocols)? {
            None => self.run(shape, &instance.around(&inner), beside, store),
            #[cfg(feature = "tls")]
            Some(keys) => {
                let tls = Tls::new(inner, keys);
                let renew = certificates.renewal(tls.keys());
                let beside = Beside { renew: Some(&renew), ..beside };
                self.run(shape, &instance.around(&tls), beside, store)
            }
        }
    }

    /// Serves until it is stopped.
    pub fn run<S: Service>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        Beside { extra, others, renew, writes, .. }: Beside<'_>,
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        let watch = &self.watch;
        let is_successor = instance.handover.is_some();
        let door = admin::open(watch.admin.as_ref(), watch.admin_anywhere, is_successor);
        let door = door.map_err(Refused)?;
        let control = Control::new()?;
        let own = door.as_ref().and_then(|door| door.path().map(Path::to_owned));
        let settle = || self.settle(own.as_deref(), writes);
        let host = Host {
            assets: instance.assets,
            addresses: self.addresses(instance.port),
            settle: Some(&settle),
            extra,
            verbose: watch.verbose && !watch.quiet,
            timer: watch.timer,
            signals: true,
            control: &control,
            state_fd: instance.state.fd(),
            others,
            handover: instance.handover,
        };
        let server = Server { service: instance.service, state: instance.state, host };
        if shape.name() == Some("reactor") && shape.workers == 1 {
            language::info!("reactor with one worker equals epoll: one loop, one listener");
        }
        let place = door.as_ref().map(Place::of);
        let engine = shape.name().unwrap_or("none");
        language::debug!("engine {engine}: {shape}, {} workers", shape.workers);
        language::debug!("administration at {}", place.as_deref().unwrap_or("no place"));
        let about = (instance.name, instance.facts);
        let manager = Manager::of_environment();
        // One descriptor as long as the server runs: their number does not change once it is ready.
        let stdout = Output::of(io::stdout().as_fd());
        let mut announce = |ready: &Started| {
            let line = match io::stdout().is_terminal() && !watch.json {
                true => welcome(instance.name, instance.tries, shape, ready),
                false => announcement(about, shape, place.as_deref(), ready),
            };
            print_address(stdout.as_ref(), &line);
            if let Some(manager) = &manager {
                manager.ready(&format!("{} on {}", instance.name, ready.places()));
            }
        };
        let mut reloader = Reloader::new(shape, instance.grammar, std::env::args_os().collect())?;
        let handler = door.map(|door| {
            let front = Front { service: instance.name, address: door.address() };
            (door, Box::new(front) as Box<dyn AdminHandler>)
        });
        let reload: Option<Box<dyn FnMut() -> _>> = Some(Box::new(|| reloader.reload()));
        let pulse: Option<Pulse<'_>> = manager.as_ref().and_then(|manager| {
            Some((notify::interval(is_successor)?, Box::new(move || manager.alive()) as _))
        });
        let admin = Admin { handler, reload, renew, pulse };
        match engines::run(&server, shape, store, admin, &mut announce) {
            Ok(report) => Ok(leave(&report)),
            Err(Fault::Refused(refused)) => Err(refused.into()),
            Err(fault) => Err(fault.into()),
        }
    }
}

impl ServerArgs {
    /// Gives up rights, once the server listens and before there is a second thread. `admin` is the
    /// socket of the administration.
    fn settle(&self, admin: Option<&Path>, writes: Option<&[PathBuf]>) -> io::Result<()> {
        rights::gain_no_more()?;
        let Some(user) = &self.run_as else { return Ok(()) };
        let sockets = self.socket_paths().chain(admin.map(Path::to_owned));
        let files = sockets.chain(writes.unwrap_or_default().iter().cloned());
        let mut folders = vec![PathBuf::from("/dev"), PathBuf::from("/proc")];
        for path in files.map(std::path::absolute) {
            let path = path?;
            let is_ours =
                path.metadata().is_ok_and(|it| it.is_file() || it.file_type().is_socket());
            if is_ours && !user.is_this() {
                user.give(&path)?;
            }
            folders.extend(path.parent().map(Path::to_owned));
        }
        user.enter().map_err(|why| match why.kind() {
            ErrorKind::PermissionDenied => io::Error::new(
                ErrorKind::PermissionDenied,
                "expected a server that root starts, because no other user can become another; \
                 leave --run-as out",
            ),
            _ => why,
        })?;
        if writes.is_some() && !rights::write_only_beneath(&folders)? {
            language::info!("this kernel has no landlock: the user's permissions alone hold");
        }
        Ok(())
    }
}

/// Prints the address on stdout, but never waits for a reader that pauses.
fn print_address(stdout: Result<&Output, &io::Error>, line: &str) {
    let printed = stdout.map(|stdout| stdout.write_all(line.as_bytes(), Duration::ZERO));
    let why = match printed {
        Ok(Ok(())) => return,
        Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => {
            "it is full, because its reader paused".to_owned()
        }
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    language::eprintln!("expected a stdout for the address: {why}; serving without");
}

/// The line of JSON about a server that accepts connections, for which scripts and the laboratory
/// wait.
fn announcement(
    (service, facts): (&str, &[(&str, &str)]),
    shape: &Shape,
    admin: Option<&str>,
    ready: &Started,
) -> String {
    let mut line = serde_json::json!({
        "listening": ready.listening.to_string(),
        "also": ready.also.iter().map(ToString::to_string).collect::<Vec<_>>(),
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
        "admin": admin,
        "pid": std::process::id(),
    });
    for (name, value) in facts {
        line[name] = (*value).into();
    }
    format!("{line}\n")
}

fn leave(report: &Report) -> ExitCode {
    let Report { forced, replaced, accepted, refused, unsaved, .. } = report;
    let (spawned, retired, recycled) = (report.spawned, report.retired, report.recycled);
    if retired + recycled > 0 {
        language::info!("{spawned} processes started, {retired} retired, {recycled} recycled");
    }
    let refused = if *refused > 0 { format!("{refused} refused, ") } else { String::new() };
    language::info!("stopped after {accepted} connections, {refused}{replaced} workers replaced");
    if *forced || unsaved.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
