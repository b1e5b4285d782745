//! Cores, clocks, and one second of observation.

use super::{Check, Part, number, read};
use lab::machine::{Conditions, Host, Placement, Watch};
use stats::words::time;
use std::time::{Duration, Instant};

/// The time of the observation.
const LISTEN: Duration = Duration::from_secs(1);
/// Clock sources that are read without a system call.
const QUICK: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];

pub(super) fn checks() -> Vec<Check> {
    let mut part = Part::new("cores and clocks");
    cores(&mut part);
    placement(&mut part);
    clocks(&mut part);
    let watch = Watch::start();
    std::thread::sleep(LISTEN);
    let mut noise = Part::new("noise");
    quiet(&mut noise, &watch.stop());
    [part.checks, noise.checks].concat()
}

fn cores(part: &mut Part) {
    let allowed = sys::cpu::affinity().map(|cores| cores.len()).unwrap_or(1);
    match (allowed, quota()) {
        (cores, Some(share)) if share < cores as f64 => part.note(
            "cores",
            format!("{cores} allowed, {share:.1} of them by the control group's quota"),
            "the control group limits CPU time, so measurements stop and go: raise its quota",
        ),
        (1, _) => part.note(
            "cores",
            "1",
            "server and generator share one core, so only their sum can be measured: allow two",
        ),
        (cores, _) => part.good("cores", format!("{cores} allowed")),
    }
}

fn placement(part: &mut Part) {
    match Placement::choose() {
        Some(placement) => {
            let cores = format!("cores {} and {}", placement.first, placement.second);
            match placement.siblings {
                false => part.good("placement", format!("{cores}, swapped from block to block")),
                true => part.note(
                    "placement",
                    format!("{cores}, threads of one core"),
                    "the two threads slow each other: allow two physical cores",
                ),
            }
        }
        None => part.note("placement", "nothing can be pinned", ""),
    }
    match read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref() {
        Some("performance") => part.good("frequency", "governor performance"),
        Some(other) => part.note(
            "frequency",
            format!("governor {other}"),
            "the clock rate follows the load: `cpupower frequency-set -g performance`",
        ),
        None => part.good("frequency", "not ours to set here"),
    }
    match Host::identify().is_ok_and(|host| host.virtual_machine) {
        true => part.note("machine", "virtual: other guests are seen as stolen time only", ""),
        false => part.good("machine", "no hypervisor below"),
    }
}

/// Cores that the control group grants, if there is a quota (cgroups(7)).
fn quota() -> Option<f64> {
    if let Some(text) = read("/sys/fs/cgroup/cpu.max") {
        let mut words = text.split_whitespace();
        let (most, period) = (words.next()?, words.next()?);
        return Some(most.parse::<f64>().ok()? / period.parse::<f64>().ok()?);
    }
    let most = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?.parse::<f64>().ok()?;
    let period = number("/sys/fs/cgroup/cpu/cpu.cfs_period_us")? as f64;
    (most > 0.0).then(|| most / period)
}

fn clocks(part: &mut Part) {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = read(path).unwrap_or_else(|| "unknown".to_string());
    let found = format!("{source}, {} a reading", reading());
    let advice = format!("`{source}` may ask a device for each reading: boot with clocksource=tsc");
    part.judge("clock", !QUICK.contains(&source.as_str()), found, &advice);
}

/// The cost of reading the clock.
fn reading() -> String {
    const READINGS: u32 = 20_000;
    let begun = Instant::now();
    let mut last = begun;
    for _ in 0..READINGS {
        last = Instant::now();
    }
    format!("{} ns", (last.duration_since(begun) / READINGS).as_nanos())
}

fn quiet(part: &mut Part, seen: &Conditions) {
    let gates = lab::plan::Gates::default();
    let share = |share: Option<f64>| match share {
        Some(share) => format!("{:.1} % of the last second", share * 100.0),
        None => "unknown".to_string(),
    };
    let above = |share: Option<f64>, limit: f64| share.is_some_and(|share| share > limit);
    let advice =
        "the host gives this machine's time to others: measure at another hour or elsewhere";
    part.judge("stolen time", above(seen.steal, gates.steal_max), share(seen.steal), advice);
    let advice = "other processes are running: end them, or trials are doubted";
    let is_busy = above(seen.foreign, gates.foreign_max);
    part.judge("other processes", is_busy, share(seen.foreign), advice);
    let late = seen.hiccup_ms.unwrap_or(0.0);
    let words = format!("a sleeping thread woke {} late at worst", time(late * 1e6));
    let advice = "everything stops at times: see stolen time";
    part.judge("hiccups", late > gates.hiccup_ms_max, words, advice);
}
