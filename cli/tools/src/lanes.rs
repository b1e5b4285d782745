//! Lanes: several servers of one address, each on an engine of its own, and a front that starts
//! them, sends new connections to one or another, and replaces the main one by a better one.
//!
//! No byte passes through the front. It opens three listeners on one address, lends each to a
//! server as a service manager does, and lets the kernel draw the listener of a new connection
//! ([`socket::steer`]). So a lane is an ordinary server, and one that leaves loses nothing: new
//! connections go elsewhere first, its queue is accepted, then it drains.

mod controller;

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use engines::Refused;
use language::{eprintln, info, println};
use meter::proc::TreeCost;
use server::ServerArgs;
use signal_hook::consts::SIGHUP;
use sys::process::{self, Pid, end_with_parent};
use sys::signal::Signal;
use sys::socket::{self, ListenOptions};
use wire::conf::span;

use self::controller::{Controller, EVERY, LaneStep, Seen};
use crate::interrupt::watch;
use crate::top::Link;

/// The listeners: of the main server, the canary, the control, in changing roles.
const SLOTS: usize = 3;
/// The share of new connections that canary and control get each, in per cent.
const SHARE: u8 = 10;
/// Set in the environment of a lane, which has the flags of the front too.
const LANE: &str = "ROUNDHOUSE_LANE";
/// The interval of looks at processes, orders and signals.
const TICK: Duration = Duration::from_millis(50);
/// The time in which a lane must be ready.
const READY_MAX: Duration = Duration::from_secs(10);
/// The time for handshakes in progress after new connections go elsewhere.
const LINGER: Duration = Duration::from_secs(1);
/// Events kept.
const EVENTS_MAX: usize = 200;
/// How long a client of the administration may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The flags of a service whose clients share no state.
#[derive(clap::Args)]
pub struct LaneArgs {
    /// Serve on the first of these engines, try the others on a tenth of the new connections, and
    /// switch to one that is proven better (with --governor advise: report it)
    #[arg(long, value_delimiter = ',', value_name = "ENGINE,…")]
    lanes: Vec<String>,
    /// The rest between two trials of --lanes; it grows while nothing better is found
    #[arg(long, default_value = "10m", value_parser = span, value_name = "TIME",
        requires = "lanes")]
    lane_rest: Duration,
}

impl LaneArgs {
    /// Whether this process is to be a front, not one server or a lane.
    pub fn is_front(&self) -> bool {
        !self.lanes.is_empty() && std::env::var_os(LANE).is_none()
    }

    /// Serves on several engines; `None` if that was not asked for, and for a lane.
    /// Servers of a protocol without `refusals` have no governor, so their CPU time alone decides.
    pub fn front(
        &self,
        server: &ServerArgs,
        port: u16,
        service: &'static str,
        refusals: bool,
    ) -> Option<Result<ExitCode>> {
        self.is_front().then(|| {
            let names: BTreeSet<&String> = self.lanes.iter().collect();
            if names.len() < self.lanes.len().max(2) {
                let want = "expected two engines or more for --lanes, such as epoll,uring, found";
                return Err(Refused(format!("{want} {}", self.lanes.join(","))).into());
            }
            let (address, advises) = server.front(port)?;
            let controller = Controller::new(&self.lanes, advises, self.lane_rest);
            run(&self.lanes, controller, address, service, words(refusals))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Main,
    Canary,
    Control,
    /// New connections go elsewhere since then; whether it was told to drain.
    Leaving(Instant, bool),
}

/// A running server.
struct Lane {
    slot: usize,
    engine: usize,
    role: Role,
    child: Child,
    link: Link,
    /// Requests, refusals and CPU time at the last look.
    before: Option<(u64, u64, TreeCost)>,
}

impl Lane {
    /// Its work since the last look.
    fn seen(&mut self) -> Seen {
        let Ok(status) = self.link.sample() else { return Seen::default() };
        let Ok(tree) = TreeCost::read(self.child.id()) else { return Seen::default() };
        let refused = status.sample.governor.map_or(0, |governor| governor.refused);
        let requests = status.sample.totals.answered;
        let found = self.before.as_ref().map(|(then, others, cost)| Seen {
            requests: requests.saturating_sub(*then),
            refused: refused.saturating_sub(*others),
            cpu_ns: tree.since(cost).cpu_ns,
        });
        self.before = Some((requests, refused, tree));
        found.unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::of);
        // It may have ended already.
        let _ = pid.map(|pid| process::kill(pid, signal));
    }
}

struct Front {
    /// The engines; the first serves at the start.
    engines: Vec<String>,
    /// The words of `serve` without those of the front.
    words: Vec<OsString>,
    room: tempfile::TempDir,
    sockets: Vec<OwnedFd>,
    lanes: Vec<Lane>,
    controller: Controller,
    /// An engine that is to become the main one as soon as a listener is free, and why.
    wanted: Option<(usize, String)>,
    events: VecDeque<(Instant, String)>,
    begun: Instant,
    starts: usize,
    /// Every lane so far ended well.
    is_clean: bool,
}

/// Serves until it is stopped, or fails if the address cannot be used or the first server does not
/// start.
fn run(
    engines: &[String],
    controller: Controller,
    address: SocketAddr,
    service: &str,
    words: Vec<OsString>,
) -> Result<ExitCode> {
    let stop = watch()?;
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload)).context("cannot watch for signals")?;
    let (sockets, address) = listen(address)?;
    let room = tempfile::Builder::new().prefix("roundhouse-lanes-").tempdir()?;
    let folder = server::admin::folder();
    sys::own::make(&folder).with_context(|| format!("cannot use {}", folder.display()))?;
    let path = folder.join(format!("{}.sock", std::process::id()));
    let door = Door::open(path)?;
    let mut front = Front {
        engines: engines.to_vec(),
        words,
        room,
        sockets,
        lanes: Vec::new(),
        controller,
        wanted: None,
        events: VecDeque::new(),
        begun: Instant::now(),
        starts: 0,
        is_clean: true,
    };
    front.start(0, 0, Role::Main)?;
    let ready = serde_json::json!({
        "listening": address.to_string(), "service": service,
        "engine": engines[0], "lanes": engines,
        "admin": format!("unix:{}", door.path.display()), "pid": std::process::id(),
    });
    println!("{ready}");
    let mut next = Instant::now() + EVERY;
    while !stop.load(Ordering::Relaxed) {
        sleep(TICK);
        if reload.swap(false, Ordering::Relaxed) {
            front.lanes.iter().for_each(|lane| lane.signal(Signal::HUP));
        }
        while let Ok((client, _)) = door.listener.accept() {
            if front.answer(client).is_some_and(|order| order == "drain" || order == "quit") {
                stop.store(true, Ordering::Relaxed);
            }
        }
        front.reap()?;
        front.retire();
        front.replace();
        if Instant::now() >= next {
            next = Instant::now() + EVERY;
            front.look();
        }
    }
    stop.store(false, Ordering::Relaxed);
    Ok(front.close(&stop))
}

/// Three listeners on one address; connections go to the first.
fn listen(address: SocketAddr) -> Result<(Vec<OwnedFd>, SocketAddr)> {
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let fault = |error| anyhow!("cannot listen on {address}: {error}");
    let first = socket::listen(address, &options).map_err(fault)?;
    // Before the others join, so that no connection comes to a listener without a server.
    socket::steer(&first, &[100]).map_err(fault)?;
    let address = socket::local_addr(&first).map_err(fault)?;
    let mut all = vec![first];
    for _ in 1..SLOTS {
        all.push(socket::listen(address, &options).map_err(fault)?);
    }
    Ok((all, address))
}

/// The administration of the front.
struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    fn open(path: PathBuf) -> Result<Door> {
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Door { listener, path })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Front {
    fn note(&mut self, text: String) {
        info!("lanes: {text}");
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back((Instant::now(), text));
    }

    fn name(&self, engine: usize) -> &str {
        &self.engines[engine]
    }

    /// Starts a server on a listener, and waits until it is ready.
    fn start(&mut self, slot: usize, engine: usize, role: Role) -> Result<()> {
        self.starts += 1;
        let admin = self.room.path().join(format!("{}.sock", self.starts));
        // The listener comes as standard input, because a shell of one process then knows its id.
        let script = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(std::env::current_exe()?).args(&self.words);
        command.args(["--engine", self.name(engine), "--admin"]).arg(&admin);
        command.env(LANE, "1").stdout(Stdio::null());
        command.stdin(Stdio::from(self.sockets[slot].try_clone()?));
        end_with_parent(&mut command, Signal::TERM);
        let mut child = command.spawn().context("cannot start a lane")?;
        let begun = Instant::now();
        let link = loop {
            if let Some(status) = child.try_wait()? {
                bail!("a server on {} ended before it was ready: {status}", self.name(engine));
            }
            if begun.elapsed() > READY_MAX {
                let _ = child.kill();
                let _ = child.wait();
                bail!("expected a server on {} within {READY_MAX:?}", self.name(engine));
            }
            let link = Link::named(&admin.display().to_string());
            match link.and_then(|link| Ok((link.sample()?.sample.phase, link))) {
                Ok((phase, link)) if phase == "ready" => break link,
                _ => sleep(TICK / 5),
            }
        };
        self.lanes.push(Lane { slot, engine, role, child, link, before: None });
        Ok(())
    }

    fn at(&self, role: Role) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.role == role)
    }

    fn vacant(&self) -> Vec<usize> {
        (0..SLOTS).filter(|slot| self.lanes.iter().all(|lane| lane.slot != *slot)).collect()
    }

    /// Sends new connections to the lanes by their roles.
    fn steer(&mut self) {
        let mut shares = [0; SLOTS];
        for lane in &self.lanes {
            shares[lane.slot] = match lane.role {
                Role::Canary | Role::Control => SHARE,
                Role::Main | Role::Leaving(..) => 0,
            };
        }
        if let Some(at) = self.at(Role::Main) {
            shares[self.lanes[at].slot] = 100 - shares.iter().sum::<u8>();
        }
        if let Err(error) = socket::steer(&self.sockets[0], &shares) {
            eprintln!("new connections cannot be sent elsewhere: {error}");
        }
    }

    /// Lets all lanes of a role leave.
    fn dismiss(&mut self, role: Role) {
        let lanes = self.lanes.iter_mut().filter(|lane| lane.role == role);
        lanes.for_each(|lane| lane.role = Role::Leaving(Instant::now(), false));
    }

    /// Makes the canary the main server.
    fn promote(&mut self) {
        self.dismiss(Role::Main);
        self.dismiss(Role::Control);
        if let Some(at) = self.at(Role::Canary) {
            self.lanes[at].role = Role::Main;
        }
        self.steer();
    }

    fn end_trial(&mut self) {
        self.dismiss(Role::Canary);
        self.dismiss(Role::Control);
        self.steer();
    }

    /// Measures the lanes, and takes the controller's step.
    fn look(&mut self) {
        let mut found = |role| self.at(role).map(|at| self.lanes[at].seen());
        let (main, canary, control) =
            (found(Role::Main).unwrap_or_default(), found(Role::Canary), found(Role::Control));
        let trial = canary.as_ref().zip(control.as_ref());
        let step = self.controller.look(self.begun.elapsed(), &main, trial);
        match step {
            None => {}
            Some(LaneStep::Try(engine)) => self.begin(engine),
            Some(LaneStep::GiveUp(why)) => {
                self.note(format!("{} stays: {why}", self.name(self.controller.main())));
                self.end_trial();
            }
            Some(LaneStep::Switch(why)) => {
                self.note(format!("{} serves now: {why}", self.name(self.controller.main())));
                self.promote();
            }
            Some(LaneStep::Revert(engine, why)) => self.wanted = Some((engine, why)),
        }
    }

    /// Starts canary and control.
    fn begin(&mut self, engine: usize) {
        let main = self.controller.main();
        let started = match self.vacant()[..] {
            [a, b, ..] => self
                .start(a, engine, Role::Canary)
                .and_then(|()| self.start(b, main, Role::Control)),
            _ => Err(anyhow!("lanes still drain")),
        };
        match started {
            Ok(()) => {
                let (mine, theirs) = (self.name(engine), self.name(main));
                self.note(format!(
                    "{mine} is tried beside {theirs}, with {SHARE} % of connections"
                ));
                self.steer();
            }
            Err(error) => self.abort(format!("{} cannot be tried: {error:#}", self.name(engine))),
        }
    }

    /// Ends a trial for a reason that is none of the controller's.
    fn abort(&mut self, why: String) {
        self.note(why);
        self.controller.set_main(self.controller.main(), self.begun.elapsed());
        self.end_trial();
    }

    /// Starts the wanted engine and makes it the main one, as soon as a listener is free.
    fn replace(&mut self) {
        let Some(slot) = self.vacant().first().copied() else { return };
        let Some((engine, why)) = self.wanted.take() else { return };
        self.end_trial();
        match self.start(slot, engine, Role::Canary) {
            Ok(()) => {
                self.controller.set_main(engine, self.begun.elapsed());
                self.note(format!("{} serves now: {why}", self.name(engine)));
                self.promote();
            }
            Err(error) => self.abort(format!("{} cannot serve: {error:#}", self.name(engine))),
        }
    }

    /// Tells leaving lanes to leave with their last connection, when their queue is empty.
    fn retire(&mut self) {
        for lane in &mut self.lanes {
            let Role::Leaving(since, false) = lane.role else { continue };
            let waiting = socket::accept_queue(&self.sockets[lane.slot]).map_or(0, |it| it.0);
            if since.elapsed() >= LINGER && waiting == 0 {
                // One that does not answer is drained.
                if lane.link.order("leave").is_err() {
                    lane.signal(Signal::TERM);
                }
                lane.role = Role::Leaving(since, true);
            }
        }
    }

    /// Follows the ends of lanes.
    fn reap(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(lane) = self.lanes.get_mut(at) {
            let Some(status) = lane.child.try_wait()? else {
                at += 1;
                continue;
            };
            let Lane { slot, engine, role, .. } = self.lanes.swap_remove(at);
            let is_told = matches!(role, Role::Leaving(_, true));
            self.is_clean &= is_told && status.success();
            let name = self.name(engine).to_string();
            match role {
                _ if is_told => {}
                // Clients wait in its queue.
                Role::Main => {
                    self.note(format!("the server on {name} ended, {status}; it starts again"));
                    self.start(slot, engine, Role::Main)?;
                    self.abort(format!("{name} serves again"));
                }
                _ => self.abort(format!("the server on {name} ended: {status}")),
            }
        }
        Ok(())
    }

    /// Answers one client of the administration; returns an order to the front itself. All that is
    /// not about lanes is the main server's to answer.
    fn answer(&mut self, mut client: UnixStream) -> Option<&'static str> {
        client.set_nonblocking(false).ok()?;
        client.set_read_timeout(Some(PATIENCE)).ok()?;
        client.set_write_timeout(Some(PATIENCE)).ok()?;
        let (mut request, mut bytes) = (Vec::new(), [0; 1024]);
        while !request.ends_with(b"\r\n\r\n") && request.len() < bytes.len() {
            match client.read(&mut bytes).ok()? {
                0 => return None,
                count => request.extend_from_slice(&bytes[..count]),
            }
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let (line, _) = text.split_once("\r\n")?;
        let (order, body) = match line.rsplit_once(' ')?.0 {
            "POST /drain" => (Some("drain"), r#"{"words":["the lanes drain"]}"#.to_string()),
            "POST /quit" => (Some("quit"), r#"{"words":["the lanes drain"]}"#.to_string()),
            "POST /switch" => {
                let engine = self.controller.next();
                self.wanted = Some((engine, "it was ordered".to_string()));
                (None, format!(r#"{{"words":["{} will serve"]}}"#, self.name(engine)))
            }
            "GET /governor" => (None, self.told()),
            _ => {
                let answer = self.lanes[self.at(Role::Main)?].link.exchange(&text).ok()?;
                client.write_all(&answer).ok()?;
                return None;
            }
        };
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
        client.write_all(head.as_bytes()).ok()?;
        order
    }

    /// The events of the lanes, then the decisions of the main server.
    fn told(&self) -> String {
        let line = |(at, text): &(Instant, String)| {
            format!("{:.2} s ago  lane     {text}\n", at.elapsed().as_secs_f64())
        };
        let events: String = self.events.iter().map(line).collect();
        let main = self.at(Role::Main).and_then(|at| self.lanes[at].link.page("governor").ok());
        events + &main.unwrap_or_default()
    }

    /// Keeps new clients out, lets the lanes accept what waits, and drains them.
    fn close(mut self, stop: &AtomicBool) -> ExitCode {
        self.sockets.iter().for_each(|socket| drop(socket::deafen(socket)));
        let begun = Instant::now();
        let waits = |socket: &OwnedFd| socket::accept_queue(socket).is_ok_and(|it| it.0 > 0);
        while begun.elapsed() < TICK || (begun.elapsed() < LINGER && self.sockets.iter().any(waits))
        {
            sleep(TICK / 10);
        }
        self.lanes.iter().for_each(|lane| lane.signal(Signal::TERM));
        for lane in &mut self.lanes {
            while let Ok(None) = lane.child.try_wait() {
                sleep(TICK / 10);
                if stop.swap(false, Ordering::Relaxed) {
                    lane.signal(Signal::TERM);
                }
            }
            self.is_clean &= lane.child.wait().is_ok_and(|status| status.success());
        }
        if self.is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The words of this program's command line that its lanes have too: without the flags that the
/// front gives them itself, and where the protocol has no `refusals` without a governor.
fn words(refusals: bool) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut all = std::env::args_os().skip(1);
    while let Some(word) = all.next() {
        let text = word.to_string_lossy();
        let (flag, value) = text.split_once('=').map_or((&*text, None), |it| (it.0, Some(it.1)));
        match flag {
            "--lanes" | "--lane-rest" | "--engine" => drop(value.is_none().then(|| all.next())),
            "--governor" | "--deadline" if !refusals => drop(value.is_none().then(|| all.next())),
            _ => found.push(word),
        }
    }
    found
}
