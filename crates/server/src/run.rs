//! From the options to a running server: its administration, its reloads, the line that it prints
//! when it is ready, and its exit code.

use std::io::{IsTerminal, Write, stdout};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;

use anyhow::Result;
use engines::{
    Admin, AdminHandler, Assets, Control, ExtraWorker, Fault, Handover, Pulse, Ready, Refused,
    Renew, Report, Server, Shape, StateStore, Wait,
};
use memory::Region;
use seam::Service;

use crate::admin::{self, Front, Place};
use crate::notify::{self, Manager};
use crate::options::{ServerArgs, rings_report};
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
    /// The durability of its answers, for the ready line, if that is an option.
    pub durability: Option<&'static str>,
}

impl<'a, S: Service> ServiceInstance<'a, S> {
    /// The same with a service around this one.
    pub fn around<T: Service<State = S::State>>(self, service: &'a T) -> ServiceInstance<'a, T> {
        let ServiceInstance { name, port, tries, state, assets, .. } = self;
        let ServiceInstance { handover, grammar, durability, .. } = self;
        ServiceInstance { name, port, tries, service, state, assets, handover, grammar, durability }
    }
}

impl ServerArgs {
    /// Serves until it is stopped.
    pub fn run<S: Service>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        self.run_renewed(shape, instance, store, None)
    }

    /// The same; a successor inherits `others` in addition to the listeners and the state.
    pub fn run_passing<S: Service>(
        &self,
        shape: &Shape,
        instance: &ServiceInstance<'_, S>,
        others: &[BorrowedFd<'_>],
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        self.run_by(shape, instance, (None, others), |server, admin, ready| {
            engines::run_with(server, shape, store, admin, ready)
        })
    }

    /// The same; each worker calls `renew` with the number of the reload before its next turn, to
    /// read certificates again.
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

    /// The same with an extra worker that serves no connections; a successor inherits `others` in
    /// addition to the listeners and the state.
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
        let watch = &self.watch;
        let is_successor = instance.handover.is_some();
        let door = admin::open(watch.admin.as_ref(), watch.admin_anywhere, is_successor);
        let door = door.map_err(Refused)?;
        let control = Control::new()?;
        let server = Server {
            service: instance.service,
            state: instance.state,
            assets: instance.assets,
            address: self.address(instance.port),
            verbose: watch.verbose,
            timer: watch.timer,
            signals: true,
            control: &control,
            state_fd: instance.state.fd(),
            others,
            handover: instance.handover,
        };
        if shape.name() == Some("reactor") && shape.workers == 1 {
            engines::say!("reactor with one worker equals epoll: one loop, one listener");
        }
        let place = door.as_ref().map(Place::of);
        let about = (instance.name, instance.durability);
        let manager = Manager::of_environment();
        let mut announce = |ready: &Ready| {
            let line = match stdout().is_terminal() && !watch.json {
                true => welcome(instance.name, instance.tries, shape, ready),
                false => announcement(about, shape, place.as_deref(), ready),
            };
            if let Err(error) = stdout().write_all(line.as_bytes()) {
                engines::say!("expected a stdout for the address: {error}; serving without");
            }
            if let Some(manager) = &manager {
                manager.ready(&format!("{} on {}", instance.name, ready.listening));
            }
        };
        let mut reloader = Reloader::new(shape, instance.grammar)?;
        let handler = door.map(|door| {
            let front = Front { service: instance.name, address: door.address() };
            (door, Box::new(front) as Box<dyn AdminHandler>)
        });
        let reload: Option<Box<dyn FnMut() -> _>> = Some(Box::new(|| reloader.reload()));
        let pulse: Option<Pulse<'_>> = manager.as_ref().and_then(|manager| {
            Some((notify::interval(is_successor)?, Box::new(move || manager.alive()) as _))
        });
        let admin = Admin { handler, reload, renew, pulse };
        match live(&server, admin, &mut announce) {
            Ok(report) => Ok(leave(&report)),
            Err(Fault::Refused(refused)) => Err(refused.into()),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// Reports that the server is ready.
type Announce<'a> = &'a mut dyn FnMut(&Ready);

/// The line of JSON about a server that accepts connections, for which scripts and the laboratory
/// wait.
fn announcement(
    (service, durability): (&str, Option<&str>),
    shape: &Shape,
    admin: Option<&str>,
    ready: &Ready,
) -> String {
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
        "durability": durability,
        "rings": ready.rings.as_ref().map(rings_report),
        "admin": admin,
        "pid": std::process::id(),
    });
    format!("{line}\n")
}

fn leave(report: &Report) -> ExitCode {
    let Report { forced, replaced, accepted, refused, unsaved, .. } = report;
    let (spawned, retired, recycled) = (report.spawned, report.retired, report.recycled);
    if retired + recycled > 0 {
        engines::say!("{spawned} processes started, {retired} retired, {recycled} recycled");
    }
    let refused = if *refused > 0 { format!("{refused} refused, ") } else { String::new() };
    engines::say!("stopped after {accepted} connections, {refused}{replaced} workers replaced");
    if *forced || unsaved.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
