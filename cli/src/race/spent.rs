//! `roundhouse explain ENGINE`: where the CPU time of a request goes, over a pair of veth devices.
//!
//! Server and generator have a core each, so the soft interrupts of a core (proc_stat(5)) tell
//! whose work they are. A frame that one side sends is taken in on the same core, in a soft
//! interrupt; so those of the generator's core are work for the server. A process is charged with
//! the soft interrupts that interrupt it, so those of the server's core are subtracted.

use crate::far::veth;
use anyhow::{Context, Result};
use engines::Preset;
use engines::status::Gauge;
use lab::far::Far;
use lab::load::Load;
use lab::machine::Placement;
use lab::plan::Arm;
use lab::runner::pin;
use lab::server::Server;
use language::println;
use meter::TreeCost;
use stats::words::{short, time};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tools::race::room;
use tools::top::link::Link;

/// The time limit for a server's start and end.
const PATIENCE: Duration = Duration::from_secs(5);
const LOAD: [&str; 7] = ["--closed", "16", "--depth", "1", "--for", "3s", "--json"];
/// Nanoseconds of a tick (`USER_HZ` is 100 on all architectures of ours).
const TICK_NS: f64 = 1e7;

/// The costs of a server's requests.
struct Spent {
    requests: f64,
    /// The server's time outside of the kernel and within, nanoseconds.
    own: [f64; 2],
    /// Soft interrupts of the server's core, and of the generator's, nanoseconds.
    soft: [f64; 2],
    gauges: Vec<Gauge>,
}

/// Starts one server on each engine, and shows the parts of a request's CPU time.
pub fn run(engines: &[&Preset]) -> Result<ExitCode> {
    let room = room("roundhouse-explain")?;
    let far = veth::reach(room.path())?;
    let placement = Placement::choose().context("expected two cores, found one")?;
    for engine in engines {
        let spent = measure(engine, &far, room.path(), placement)?;
        spent.lines(engine.name).iter().for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(engine: &Preset, far: &Far, room: &Path, cores: Placement) -> Result<Spent> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let program = exe.display().to_string();
    let interface = engine.needs_interface().then_some(["--interface", veth::INTERFACE]);
    let serve = ["serve", "http", "--demo", "--host", "{host}", "--port", "0", "--engine"];
    let words = [program.as_str()].into_iter().chain(serve).chain([engine.name]);
    let command = words.chain(interface.into_iter().flatten()).map(str::to_owned).collect();
    let arm = Arm { command, ..Arm::default() };
    let prefix = pin(&exe, cores.first);
    let server = Server::boot((far.host, 0), &prefix, &arm, room, engine.name, PATIENCE)
        .map_err(anyhow::Error::msg)?;
    let link = Link::named(&server.root().to_string())?;
    let before = link.sample()?.sample.gauges;
    let (early, begun) = (own(server.root())?, soft(cores)?);
    let url = format!("http://{}/plaintext", server.address);
    let words = [&program, "load", &url].into_iter().chain(LOAD).map(str::to_owned);
    let load = far.generate(&words.collect::<Vec<_>>(), room, "load");
    let mut load = load.map_err(anyhow::Error::msg)?;
    while load.ended().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (late, ended) = (own(server.root())?, soft(cores)?);
    let mut gauges = link.sample()?.sample.gauges;
    let report = Load::parse(&load.output()).map_err(anyhow::Error::msg)?;
    for gauge in &mut gauges {
        let then = before.iter().find(|it| (&it.name, &it.labels) == (&gauge.name, &gauge.labels));
        gauge.value -= then.map_or(0.0, |then| then.value);
    }
    server.process.stop(PATIENCE);
    let own = [late[0] - early[0], late[1] - early[1]];
    let soft = [ended[0] - begun[0], ended[1] - begun[1]];
    Ok(Spent { requests: report.requests_total.max(1) as f64, own, soft, gauges })
}

/// The time in soft interrupts of the server's core and of the generator's, nanoseconds.
fn soft(cores: Placement) -> Result<[f64; 2]> {
    let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let of = |core| soft_of(&text, core).context("expected the core's line in /proc/stat");
    Ok([of(cores.first)?, of(cores.second)?])
}

/// The time of a server's processes outside of the kernel and within, nanoseconds; that of ended
/// children is in their parent's (proc_pid_stat(5)).
fn own(root: u32) -> Result<[f64; 2]> {
    let mut sum = [0.0; 2];
    for pid in TreeCost::read(root)?.pids() {
        let Some(stat) = meter::proc::stat(pid) else { continue };
        (14..18).for_each(|at| sum[at % 2] += stat[at] as f64 * TICK_NS);
    }
    Ok(sum)
}

fn soft_of(stat: &str, core: usize) -> Option<f64> {
    let name = format!("cpu{core} ");
    let mut words = stat.lines().find_map(|line| line.strip_prefix(&name))?.split_whitespace();
    words.nth(6)?.parse::<f64>().ok().map(|ticks| ticks * TICK_NS)
}

impl Spent {
    /// A gauge's growth for a request; 0 where the engine has no such gauge.
    fn each(&self, name: &str, label: &str) -> f64 {
        let is_it =
            |it: &&Gauge| it.name == name && it.labels.iter().all(|(_, value)| value == label);
        self.gauges.iter().find(is_it).map_or(0.0, |it| it.value) / self.requests
    }

    /// The parts as lines, the whole first.
    fn lines(&self, engine: &str) -> Vec<String> {
        let [soft, theirs] = self.soft.map(|ns| ns / self.requests);
        let own = self.own.map(|ns| ns / self.requests);
        let rest = 1.0 - (soft / (own[0] + own[1])).min(1.0);
        let [user, system] = own.map(|ns| ns * rest);
        let [tcp, sessions] = ["tcp", "sessions"].map(|part| self.each("loop_seconds", part));
        let stack = if tcp > 0.0 { user * tcp / (tcp + sessions) } else { 0.0 };
        let count = |name, label| short(self.each(name, label));
        let (mut calling, mut parts) = ("the kernel, in system calls".to_owned(), Vec::new());
        if stack > 0.0 {
            let (poll, send) = (count("frame_calls", "poll"), count("frame_calls", "sendto"));
            calling += &format!(": {poll} poll and {send} sendto, which copy the frames out");
            let [(came, read), (gone, wrote)] =
                ["in", "out"].map(|way| (count("frames", way), count("frame_bytes", way)));
            let text =
                format!("{came} frames in and {gone} out, sums over {read} and {wrote} bytes");
            parts.push((stack, format!("smoltcp and the rings: {text}")));
        }
        let soft_in =
            |core: &str, text: &str| format!("the kernel, in soft interrupts of {core}: {text}");
        let text = "packets that it sends reach the client's socket";
        parts.push((soft, soft_in("the server's core", text)));
        let text = match stack > 0.0 {
            true => "frames that it sends are picked, and copied to the server",
            false => "packets that it sends reach the server's socket",
        };
        parts.push((theirs, soft_in("the generator's core", text)));
        parts.push((system, calling));
        parts.push((user - stack, "the service and its loop".to_owned()));
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let whole = user + system + soft + theirs;
        let head =
            format!("{engine}: {} for a request, without the generator's own work", time(whole));
        let share = |ns: f64| format!("{:>9} {:>3.0} %", time(ns), 100.0 * ns / whole);
        let rows = parts.iter().map(|(ns, text)| format!("{}  {text}", share(*ns)));
        [head].into_iter().chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_name_what_was_counted() {
        let stat = "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8\ncpu1 0 0 0 0 0 0 9 0\n";
        assert_eq!([0, 1, 2].map(|core| soft_of(stat, core)), [Some(7e7), Some(9e7), None]);
        let frames = |way, value| Gauge::total("frames", "", value).with("direction", way);
        let part = |part, value| Gauge::total("loop_seconds", "", value).with("part", part);
        let gauges =
            vec![frames("in", 2e5), frames("out", 1e5), part("tcp", 0.2), part("sessions", 0.4)];
        let (own, soft) = ([3.6e8, 4.8e8], [1.4e8, 1.6e8]);
        let spent = Spent { requests: 1e5, own, soft, gauges };
        let lines = spent.lines("bypass");
        assert!(lines[0].starts_with("bypass: 10.0 µs for a request"), "{lines:?}");
        assert!(lines[1].contains("4.00 µs  40 %  the kernel, in system calls"), "{lines:?}");
        let stack =
            |line: &String| line.contains("smoltcp and the rings: 2.00 frames in and 1.00 out");
        assert!(lines.iter().any(stack), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("2.00 µs  20 %  the service")), "{lines:?}");
        assert_eq!(lines.len(), 6);
    }
}
