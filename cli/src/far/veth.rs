//! Two networks on this machine, joined by a pair of veth devices: the servers in one, the
//! generator in the other.
//!
//! Neither network has a name. This process is in the first, a sleeping process in the second, and
//! the kernel removes both, and the devices, when these processes end in any way.
//!
//! CPU time of a server alone is not fair here. A frame that one side sends is received at once, in
//! a softirq on the same core, and the kernel charges that to the process that it interrupts: the
//! sender. So the work of both sides is added up ([`shares`]).

use anyhow::{Context, Result, bail};
use lab::far::Far;
use lab::record::Run;
use language::info;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sys::process::end_with_parent;
use sys::signal::Signal;

const SERVERS: Ipv4Addr = Ipv4Addr::new(10, 99, 6, 1);
/// Their interface.
pub const INTERFACE: &str = "rhs";
const GENERATOR: Ipv4Addr = Ipv4Addr::new(10, 99, 6, 2);

/// The process that holds the generator's network.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moves this process into a new network, and reaches a generator in another.
pub fn reach(room: &Path) -> Result<Far> {
    sys::netlink::isolate().context(
        "--veth expected the right to make networks (CAP_SYS_ADMIN and CAP_NET_ADMIN), found \
         none: run it as root",
    )?;
    let holder = hold()?;
    let peer = holder.0.id().to_string();
    join(&peer)?;
    let exe = std::env::current_exe()?.display().to_string();
    let words = ["nsenter", "--target", &peer, "--net", &exe, "far"].map(str::to_string);
    let mut far = Far::reach(words.to_vec(), Box::new(holder), IpAddr::V4(SERVERS), room)
        .map_err(anyhow::Error::msg)?;
    far.network.is_cable = true;
    let nest = fs::File::open(format!("/proc/{peer}/ns/net"));
    far.nest = Some(nest.context("cannot open the generator's network")?);
    Ok(far)
}

/// Starts a process in a new network.
fn hold() -> Result<Holder> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null());
    end_with_parent(&mut command, Signal::KILL);
    let holder = Holder(command.spawn().context("--veth needs unshare(1) of util-linux")?);
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let (own, begun) = (network("self"), Instant::now());
    let is_apart = || network(&holder.0.id().to_string()).is_some_and(|it| Some(it) != own);
    while !is_apart() {
        if begun.elapsed() > Duration::from_secs(5) {
            bail!("expected a second network within 5 s, found none: run it as root");
        }
        sleep(Duration::from_millis(2));
    }
    Ok(holder)
}

fn join(peer: &str) -> Result<()> {
    let script = format!(
        "ip link add {INTERFACE} type veth peer name rhg netns {peer} && \
         ip addr add {SERVERS}/24 dev {INTERFACE} && ip link set {INTERFACE} up && \
         nsenter --target {peer} --net sh -c 'ip link set lo up && \
         ip addr add {GENERATOR}/24 dev rhg && ip link set rhg up'"
    );
    let ran = Command::new("sh").args(["-c", &script]).output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("--veth expected ip(8) and nsenter(1) to join two networks: {}", said.trim());
    }
    Ok(())
}

/// Shows what a request costs server and generator together, for each arm and load point.
pub fn show(run: &Run) {
    info!(
        "Over veth the kernel does a part of the server's work in the generator's time. CPU time \
         of both together for a request:"
    );
    for (arm, point, ns, trials) in shares(run) {
        let time = stats::words::time(ns);
        info!("{arm}, {point}: {time} for both, the median of {trials} trials");
    }
}

/// The median CPU time of both sides for a request (ns), and the number of trials.
fn shares(run: &Run) -> Vec<(String, String, f64, usize)> {
    let mut all: Vec<(String, String, Vec<f64>)> = Vec::new();
    for trial in &run.trials {
        let Some(load) = trial.result() else { continue };
        let (Some(server), Some(generator)) = (&load.server, load.generator) else { continue };
        let spent = server.cpu_ns + generator.cpu_ns;
        if load.requests == 0 || generator.cpu_ns == 0 {
            continue;
        }
        let ns = spent as f64 / load.requests as f64;
        match all.iter_mut().find(|(arm, point, _)| (arm, point) == (&trial.arm, &trial.point)) {
            Some((_, _, costs)) => costs.push(ns),
            None => all.push((trial.arm.clone(), trial.point.clone(), vec![ns])),
        }
    }
    let middle = |(arm, point, costs): (String, String, Vec<f64>)| {
        stats::median(&costs).map(|ns| (arm, point, ns, costs.len()))
    };
    all.into_iter().filter_map(middle).collect()
}
