//! The settings of any point of the space: one table, of which `setting.rs` derives the rest.
//!
//! A row of the table names the flag, the field, its type, default and placeholder, and its doc
//! comment is the help. The macro `settings!` makes the structs of this file from the rows. A row
//! that begins with `live` may change while the server runs: it has a cell on the scoreboard, whose
//! index is its place among the live rows. The supervisor writes the cells at the start and at each
//! reload, workers read them at each use, in threads and processes alike. A cell is one word, so a
//! reader never sees half a setting; two settings may briefly be of different age.

use std::io;
use std::time::Duration;

use memory::Settings;
use sys::uring::Setup;
use sys::xdp::DeviceName;

use crate::governor::Mode;
use crate::setting::{
    Kind, LiveSetting, SettingRow, Value, Word, none_at_zero, power_of_two, settings,
};
use crate::spare::Policy;

settings! {
    /// How loops work.
    struct loops: LoopKnobs = "Architecture" {
        /// Helper threads of each loop, for work that would block it; 0: the loop does the work
        /// itself and its other connections wait [default: 4, started when needed; amped: 16, at
        /// the start]
        "helpers" helpers: Option<usize>, "N";
        /// Edge-triggered readiness (epoll only)
        "edge" edge: bool, "";
        /// Before a loop sleeps, ask the network card for packets for this long, in microseconds
        /// (wait epoll and uring; Linux 6.9)
        "busy-poll" busy_poll: Option<u32>, "MICROSECONDS", bounds: 1..=1_000_000;
        /// Stack of each connection, of which only touched pages are memory (coroutine only)
        /// [default: 262144]
        "stack" stack: Option<usize>, "BYTES", bounds: 65536..=1 << 30;
        /// Network interface whose frames for --host go past the kernel's TCP (bypass only)
        "interface" interface: Option<DeviceName>, "NAME";
        /// Input buffer of each connection, and half of its output buffer (bypass only)
        /// [default: 2048]
        "tcp-buffer" buffer: Option<usize>, "BYTES", bounds: 2048..=1 << 20;
    }
    /// How many workers there are, and for how long; unset: the container's default.
    struct staff: Staff = "Workers" {
        /// Threads in each process of a hybrid [default: 25], or of a port [default: two a core]
        /// (ThreadsPerChild)
        "threads" threads: Option<usize>, "N", aliases: &["ThreadsPerChild"], is_common: true;
        /// Threads of a port that run at once, without those that work on a job [default:
        /// half]
        "running" running: Option<usize>, "R", aliases: &["running-thread", "running-threads"];
        /// Policy for the number of processes: static, apache (its once-a-second rule), damped
        /// (ours) [default: prefork static, hybrid damped]
        "policy" policy: Option<Policy>, "POLICY";
        /// Processes at startup (StartServers)
        "start" start: Option<usize>, "N", aliases: &["StartServers"];
        /// Fewest idle workers (MinSpareThreads, MinSpareServers)
        live "spare-min" spare_min: Option<usize>, "N",
            aliases: &["MinSpareThreads", "MinSpareServers"];
        /// Most idle workers (MaxSpareThreads, MaxSpareServers)
        live "spare-max" spare_max: Option<usize>, "N",
            aliases: &["MaxSpareThreads", "MaxSpareServers"];
        /// Replace a process after this many connections, less up to a tenth
        /// (MaxConnectionsPerChild)
        "max-connections-per-child" lifetime: Option<u32>, "N",
            aliases: &["MaxConnectionsPerChild", "MaxRequestsPerChild"], read: none_at_zero;
    }
    /// Limits of a client, in size and time.
    struct limits: ClientLimits = "Limits" {
        /// Length of the kernel's accept queue (ListenBacklog); net.core.somaxconn caps it
        "backlog" backlog: u32 = 4096, "N", aliases: &["ListenBacklog"],
            bounds: 1..=i32::MAX as u64;
        /// Connections at once; more wait in the accept queue
        live "max-connections" sessions_max: Option<usize>, "N",
            aliases: &["max-clients", "max-client"], is_common: true;
        /// Close a connection on which nothing moves for this long
        live "idle" idle: Duration = Duration::from_secs(3600), "TIME", is_common: true;
        /// Close a connection whose client takes longer than this for one request, from its first
        /// byte to its last
        "request-time" request_time: Duration = Duration::from_secs(60), "TIME", is_common: true;
        /// Probe a peer that has been silent for this long, and close the connection after twice
        /// the time without an answer; 0: never probe (SO_KEEPALIVE)
        "keepalive" keepalive: Duration = Duration::from_secs(60), "TIME";
        /// Cut off a client that accepts no output for this long
        live "write-stall" write_stall: Duration = Duration::from_secs(60), "TIME",
            is_common: true;
        /// Cut off a client that accepts waiting output more slowly than this over the time of
        /// --write-stall, in bytes a second; 0: never
        "write-rate" write_rate: u64 = 256, "BYTES";
        /// Memory for the waiting input and output of all connections, in bytes; above it the
        /// server closes those that hold most for longest; 0: any [default: a quarter of the
        /// memory of the machine or the control group]
        "memory-max" memory_max: Option<u64>, "BYTES", is_common: true;
        /// Unsent bytes that the kernel may hold for a connection until the client has accepted a
        /// MiB; 0: as many as its send buffer takes (TCP_NOTSENT_LOWAT)
        "unsent-max" unsent_max: u32 = 128 * 1024, "BYTES";
        /// Send small segments at once (TCP_NODELAY); off: wait until earlier ones are
        /// acknowledged (Nagle's algorithm, RFC 896)
        "no-delay" nodelay: bool = true, "on|off";
        /// How long a stop may take before it is forced
        live "drain" drain: Duration = Duration::from_secs(10), "TIME", is_common: true;
    }
    /// The settings of overload.
    struct overload: OverloadKnobs = "Limits" {
        /// Under overload, refuse requests that could not be answered in time: off, advise (decide
        /// and report only) or on; for http, files, stock and media, on engines with no --wait port
        "governor" governor: Mode = Mode::Off, "MODE", is_common: true;
        /// The response time that --governor holds
        "deadline" objective: Duration = Duration::from_millis(100), "TIME";
    }
    /// How the `io_uring` rings are set up.
    use ring: Setup = "io_uring" {
        /// Shared receive buffers of each ring, a power of two
        "uring-buffers" buffers: u16, "N", read: power_of_two;
    }
}

/// The settings in force, as the scoreboard has them: the supervisor writes them at the start and
/// at each reload, workers read them. Each is consistent by itself.
#[derive(Clone, Copy)]
pub struct InForce<'a>(pub &'a Settings);

impl InForce<'_> {
    /// Puts `knobs` in force.
    pub fn put(self, knobs: &Knobs) {
        for (cell, live) in Knobs::live().map(|(_, live)| live).enumerate() {
            self.0.set(cell, (live.pack)(knobs));
        }
    }

    /// The names of all settings in force, and their values.
    pub fn rows(self) -> Vec<(String, Option<String>)> {
        let rows = Knobs::live().enumerate();
        rows.map(|(cell, (row, live))| (row.name.to_owned(), (live.show)(self.0.get(cell))))
            .collect()
    }
}

impl Knobs {
    /// The settings that a reload changes, in the order of their cells.
    pub fn live() -> impl Iterator<Item = (&'static SettingRow<Knobs>, &'static LiveSetting<Knobs>)>
    {
        Knobs::ROWS.iter().filter_map(|row| Some((row, row.live.as_ref()?)))
    }
}

impl LoopKnobs {
    /// Turns busy polling on where it is asked for.
    ///
    /// # Errors
    /// The kernel has none.
    pub(crate) fn poll_busily(&self, turn_on: impl Fn(u32) -> io::Result<()>) -> io::Result<()> {
        let wanted = "expected a kernel that polls busily (Linux 6.9)";
        self.busy_poll.map_or(Ok(()), turn_on).map_err(|why| {
            io::Error::new(why.kind(), format!("{wanted}, found: {why}; leave --busy-poll out"))
        })
    }
}

/// The cell of the setting `name` on the scoreboard.
const fn cell(name: &str) -> usize {
    let (mut row, mut cell) = (0, 0);
    while !is_same(Knobs::ROWS[row].name.as_bytes(), name.as_bytes()) {
        if Knobs::ROWS[row].live.is_some() {
            cell += 1;
        }
        row += 1;
    }
    assert!(cell < Settings::CELLS, "the scoreboard has a cell for each setting");
    cell
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reloadable_row_has_a_cell_of_the_scoreboard() {
        for (row, _) in Knobs::live() {
            let settings = Settings::default();
            let mut knobs = Knobs::default();
            let value = if row.unit == "TIME" { "9s" } else { "7" };
            assert_eq!((row.set)(&mut knobs, value), Ok(()), "{}", row.name);
            InForce(&settings).put(&knobs);
            let shown = InForce(&settings).rows();
            let expected = Knobs::live().map(|(row, _)| (row.name.to_owned(), (row.write)(&knobs)));
            assert_eq!(shown, expected.collect::<Vec<_>>(), "{}", row.name);
        }
    }

    #[test]
    fn what_was_put_in_force_is_read() {
        let settings = Settings::default();
        let in_force = InForce(&settings);
        let mut knobs = Knobs::default();
        knobs.limits.write_stall = Duration::from_secs(3);
        knobs.limits.sessions_max = Some(17);
        in_force.put(&knobs);
        assert_eq!(in_force.idle(), Duration::from_secs(3600));
        assert_eq!(in_force.write_stall(), Duration::from_secs(3));
        assert_eq!((in_force.sessions_max(), in_force.spare_min()), (Some(17), None));
        assert_eq!(in_force.drain(), Duration::from_secs(10));
    }

    #[test]
    fn a_default_reads_as_itself_and_names_are_free() {
        let mut names = std::collections::BTreeSet::new();
        for row in Knobs::ROWS {
            let mut knobs = Knobs::default();
            if let Some(text) = (row.write)(&knobs) {
                assert_eq!((row.set)(&mut knobs, &text), Ok(()), "{}", row.name);
            }
            assert_eq!(knobs, Knobs::default(), "{}", row.name);
            assert!(!row.help.ends_with('.') && !row.help.contains("  "), "{}", row.help);
            for name in row.aliases.iter().chain([&row.name]) {
                assert!(names.insert(*name), "{name} is taken");
            }
        }
    }
}
