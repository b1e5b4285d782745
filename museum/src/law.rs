//! The fixed times by which a full accept queue delays clients, and waits made shorter.
//!
//! Since Linux 6.5 the first SYNs are repeated every second, not after 1, 3 and 7.

use std::fs;
use std::time::Duration;

/// The first wait for an answer to a SYN: one second (RFC 6298, section 2.1; `TCP_TIMEOUT_INIT`).
pub const SYN_WAIT: Duration = Duration::from_secs(1);

/// The times of SYN retransmissions, from the first SYN on: the wait stays one second for `linear`
/// times (`net.ipv4.tcp_syn_linear_timeouts`, 4 since Linux 6.5) and doubles from then on. With 0,
/// as before, that is 1, 3, 7, 15 s; with 4 it is 1, 2, 3, 4, 5, 7, 11 s.
pub fn syn_steps(linear: u32) -> impl Iterator<Item = Duration> {
    let waits = (0_u32..).map(move |at| SYN_WAIT * 2_u32.pow(at.saturating_sub(linear).min(16)));
    waits.scan(Duration::ZERO, |sent, wait| {
        *sent += wait;
        Some(*sent)
    })
}

/// The number of SYN retransmissions if the connection took `connect`: the last step before that
/// time. The tolerance for an early clock is 30 ms.
pub fn syn_repeats(connect: Duration, linear: u32) -> u32 {
    let reached = connect + Duration::from_millis(30);
    syn_steps(linear).take_while(|step| *step <= reached).count() as u32
}

/// The number of SYN waits of one second before the wait doubles. Kernels before 6.5 lack this
/// setting and double at once: 0.
pub fn syn_linear_timeouts() -> u32 {
    setting("/proc/sys/net/ipv4/tcp_syn_linear_timeouts").unwrap_or(0)
}

/// The longest accept queue that the kernel grants, whatever the server requests.
pub fn queue_limit() -> Option<u32> {
    setting("/proc/sys/net/core/somaxconn")
}

fn setting(path: &str) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Waits made shorter, never longer. The kernel's timers do not scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(f64);

impl Scale {
    /// As in the original.
    pub const WHOLE: Scale = Scale(1.0);
    /// The shortest: a pause of a second below a thousandth is no pause.
    pub const LEAST: f64 = 0.001;

    /// A factor for waits. `None` unless it lies between [`Scale::LEAST`] and 1.
    pub fn new(factor: f64) -> Option<Scale> {
        (Scale::LEAST..=1.0).contains(&factor).then_some(Scale(factor))
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// A wait, scaled.
    pub fn of(self, wait: Duration) -> Duration {
        wait.mul_f64(self.0)
    }

    /// The words next to every figure; empty if nothing was changed.
    pub fn words(self) -> String {
        match self.0 {
            1.0 => String::new(),
            factor => format!(
                "scale {factor}: pauses are {} as long, windows shortened down to 100 ms",
                share(factor)
            ),
        }
    }
}

/// `1/10`, `0.3 times`.
fn share(factor: f64) -> String {
    let parts = 1.0 / factor;
    match (parts - parts.round()).abs() < 1e-9 {
        true => format!("1/{parts:.0}"),
        false => format!("{factor} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(steps: impl Iterator<Item = Duration>) -> Vec<u64> {
        steps.take(7).map(|it| it.as_secs()).collect()
    }

    #[test]
    fn syns_are_sent_again_at_known_times() {
        assert_eq!(seconds(syn_steps(0)), [1, 3, 7, 15, 31, 63, 127]);
        assert_eq!(seconds(syn_steps(1)), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(seconds(syn_steps(4)), [1, 2, 3, 4, 5, 7, 11]);
    }

    #[test]
    fn a_slow_connection_names_its_step() {
        fn check(ms: u64, linear: u32, want: u32) {
            let found = syn_repeats(Duration::from_millis(ms), linear);
            assert_eq!(found, want, "{ms} ms, {linear} linear timeouts");
        }
        for linear in [0, 4] {
            check(0, linear, 0);
            check(900, linear, 0);
            check(999, linear, 1);
            check(1_060, linear, 1);
        }
        check(2_990, 0, 2);
        check(2_500, 0, 1);
        check(2_500, 4, 2);
        check(7_001, 0, 3);
        check(7_001, 4, 6);
    }

    #[test]
    fn scales_shorten_and_say_so() {
        assert_eq!(Scale::new(0.0), None);
        assert_eq!(Scale::new(1.5), None);
        assert_eq!(Scale::new(f64::NAN), None);
        let tenth = Scale::new(0.1).expect("it shortens");
        assert_eq!(tenth.of(Duration::from_secs(1)), Duration::from_millis(100));
        assert!(tenth.words().starts_with("scale 0.1: pauses are 1/10 as long"));
        assert_eq!(Scale::WHOLE.words(), "");
        assert!(Scale::new(0.3).expect("it shortens").words().contains("0.3 times"));
    }
}
