//! The results that arithmetic predicts before any measurement.
//!
//! Three laws explain most published differences between servers of the course: sleeping clients
//! bound the throughput, workers that keep their client serve in rounds, and a full accept queue
//! delays clients by fixed times. The fixed times have changed: since Linux 6.5 the first SYNs are
//! repeated every second, not after 1, 3 and 7.

use std::time::Duration;

/// The first wait for an answer to a SYN: one second (RFC 6298, section 2.1; `TCP_TIMEOUT_INIT`).
pub const SYN_WAIT: Duration = Duration::from_secs(1);

/// Rounds in which `workers` serve `clients`, if each worker keeps a client until it leaves:
/// `ceil(clients / workers)`. Without workers there is no round.
pub fn rounds(clients: u32, workers: u32) -> u32 {
    clients.checked_div(workers).map_or(0, |_| clients.div_ceil(workers))
}

/// The time until the last of `clients` has finished, if each stays for `session` once it has a
/// worker.
pub fn staircase(clients: u32, workers: u32, session: Duration) -> Duration {
    session * rounds(clients, workers)
}

/// The most requests per second of `clients` that pause for `pause` after each; the server's part
/// is taken as 0.
pub fn ceiling_rps(clients: u32, pause: Duration) -> f64 {
    f64::from(clients) / pause.as_secs_f64()
}

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

/// The number of `clients` that a queue of `backlog` refuses while the server does not accept.
/// Linux admits one more than requested: it compares with "greater than" (listen(2),
/// `sk_acceptq_is_full`).
pub fn turned_away(clients: u32, backlog: u32) -> u32 {
    clients.saturating_sub(backlog.saturating_add(1))
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

    /// The words beside every figure; empty if nothing was changed.
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
    fn workers_that_keep_their_clients_serve_in_rounds() {
        let check = |clients, workers, want| assert_eq!(rounds(clients, workers), want);
        check(0, 10, 0);
        check(1, 10, 1);
        check(10, 10, 1);
        check(11, 10, 2);
        check(20, 10, 2);
        check(21, 10, 3);
        check(5, 0, 0);
        let session = Duration::from_millis(2_500);
        assert_eq!(staircase(21, 10, session), Duration::from_millis(7_500));
        // The report that observed it wrote floor(): with 15 clients that is one session short.
        assert_eq!(staircase(15, 10, session), 2 * session);
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
    fn a_queue_holds_one_more_than_it_was_told() {
        let check = |clients, backlog, want| assert_eq!(turned_away(clients, backlog), want);
        check(129, 128, 0);
        check(500, 128, 371);
        check(1_000, 128, 871);
        check(1_000, 4_096, 0);
        check(1, u32::MAX, 0);
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
        assert_eq!(ceiling_rps(1_000, Duration::from_secs(1)), 1_000.0);
    }
}
