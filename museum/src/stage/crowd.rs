//! The course's clients: `multiclient`, one process for each, against one fresh server.
//!
//! With a hold the server is stopped (SIGSTOP) while the clients connect: the kernel then fills its
//! accept queue, and the times of connect(2) show how often each SYN was sent again.

use super::{PATIENCE, Stage};
use crate::exhibit::Fault;
use lab::machine::{Conditions, Watch};
use lab::server::{Process, Server};
use meter::machine::{CONNECTED, CONNECTING, tcp_sockets};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::json;
use stats::words;
use std::time::{Duration, Instant};

/// The time that `multiclient` needs beyond its orders and pauses: a thousand forks on a busy
/// machine, and handshakes with up to six attempts.
const SLACK: Duration = Duration::from_secs(60);
/// A hold takes at most this many times its own length.
const HOLD_MAX: u32 = 10;

/// A server and its crowd of clients.
#[derive(Clone, Debug)]
pub struct Crowd {
    pub name: String,
    /// The server's flags, `--engine` among them.
    pub server: String,
    pub clients: u32,
    pub orders: u32,
    /// The pause of each client after an order.
    pub pause: Duration,
    /// The mix of their orders, in the words of `multiclient --mix`.
    pub mix: String,
    /// The time for which the server is stopped while they connect.
    pub hold: Option<Hold>,
}

/// The server is stopped (SIGSTOP) before the first client starts, and continues after this time.
/// On a machine so busy that the clients need longer, it continues when the last of them has
/// connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hold(pub Duration);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CrowdRun {
    pub clients: u32,
    pub connected: u32,
    /// From the first fork until the last of them was connected, seconds.
    pub connected_after_s: f64,
    /// The durations of the clients' connect(2): counts in steps of 50 ms, from 0 on. The last step
    /// holds everything above.
    #[serde(default)]
    pub connect_50ms: Vec<u32>,
    pub replies: u64,
    /// From the first fork to the end of the last client, seconds.
    pub elapsed_s: f64,
    /// Replies over that time.
    pub orders_per_s: f64,
    pub clients_failed: u32,
    /// The time for which the server was held, seconds.
    #[serde(default)]
    pub held_s: f64,
}

impl CrowdRun {
    /// The connect times by step: (lower edge, clients).
    pub fn connects(&self) -> impl Iterator<Item = (Duration, u32)> {
        let edges = (0_u32..).map(|at| Duration::from_millis(50) * at);
        edges.zip(self.connect_50ms.iter().copied()).filter(|(_, clients)| *clients > 0)
    }

    /// Connected clients over time, seconds.
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let mut all = 0;
        let mut points = vec![(0.0, 0.0)];
        for (edge, count) in self.connects() {
            let at = edge.as_secs_f64();
            points.push((at, f64::from(all)));
            all += count;
            points.push((at + 0.05, f64::from(all)));
        }
        points
    }

    /// Clients by how often their SYN was sent again; the index is the number of repetitions.
    pub fn repeats(&self, linear: u32) -> Vec<u32> {
        let mut found = vec![0];
        for (edge, clients) in self.connects() {
            // The middle of the step: an edge of 1.00 s covers 1.00 to 1.05 s.
            let at = crate::law::syn_repeats(edge + Duration::from_millis(25), linear) as usize;
            found.resize(found.len().max(at + 1), 0);
            found[at] += clients;
        }
        found
    }
}

impl Stage<'_> {
    /// Runs a crowd against a fresh server.
    ///
    /// # Errors
    /// If the server does not start, the clients do not finish, or the visitor stopped the run.
    pub fn crowd(&mut self, crowd: &Crowd) -> Result<(CrowdRun, Conditions), Fault> {
        let what = format!("{}, {}", crowd.name, words::counted(crowd.clients, "client"));
        self.begin(&what)?;
        let watch = Watch::start();
        let mut server = self.serve(&crowd.server)?;
        let is_far = self.settings.far.is_some();
        let mut held = crowd.hold.map(|hold| Held::begin(&server, hold, is_far)).transpose()?;
        let mut clients = self.gather(crowd, &server)?;
        let longest = crowd.pause * crowd.orders * crowd.clients + SLACK;
        let mut held_s = 0.0;
        self.attend(&mut clients, longest, |_| {
            if held.as_ref().is_some_and(|it| it.is_over(crowd.clients)) {
                held_s = held.take().map_or(0.0, Held::end);
            }
        })?;
        let held_s = held.map_or(held_s, Held::end);
        let output = clients.output();
        let line = output.lines().rev().find(|line| line.starts_with('{'));
        let complaint = clients.complaint();
        let run: CrowdRun = line
            .and_then(|line| serde_json::from_str(line).ok())
            .ok_or_else(|| Fault::Clients(format!("expected a line of JSON: {complaint}")))?;
        let run = CrowdRun { held_s, ..run };
        if let Some(ended) = server.process.ended() {
            return Err(Fault::Server(format!("it ended under load ({})", ended.how)));
        }
        server.process.stop(PATIENCE);
        self.weigh(crowd, &run, &complaint)?;
        drop(clients);
        let conditions = watch.stop();
        self.quiet.counts(&conditions);
        self.record(&json!({
            "row": "crowd", "name": crowd.name, "server": crowd.server, "clients": crowd.clients,
            "orders": crowd.orders, "pause_s": crowd.pause.as_secs_f64(), "mix": crowd.mix,
            "hold": crowd.hold, "run": run, "conditions": conditions,
        }))?;
        self.listener.step(&format!("{what}: {}", words::seconds(run.elapsed_s)));
        Ok((run, conditions))
    }

    fn gather(&mut self, crowd: &Crowd, server: &Server) -> Result<Process, Fault> {
        let (host, port) = server.address.rsplit_once(':').unwrap_or((&server.address, ""));
        let Crowd { clients, orders, pause, mix, .. } = crowd;
        let (pause, seed) = (pause.as_micros(), self.settings.seed);
        let words = format!(
            "multiclient {host} {port} {clients} --json --no-check --orders {orders} --pause \
             {pause}us --mix {mix} --seed {seed}"
        );
        let exe = self.settings.exe.display().to_string();
        let command: Vec<String> =
            [exe].into_iter().chain(words.split(' ').map(String::from)).collect();
        self.send(&command, server.process.folder())
    }

    fn weigh(&mut self, crowd: &Crowd, run: &CrowdRun, complaint: &str) -> Result<(), Fault> {
        if run.replies == 0 {
            return Err(Fault::Clients(format!("no client was answered: {complaint}")));
        }
        if run.clients_failed > 0 {
            self.doubt(format!(
                "{}: {} of {} clients could not finish: {complaint}",
                crowd.name, run.clients_failed, run.clients
            ));
        }
        Ok(())
    }
}

/// A stopped server; dropping this continues it.
struct Held {
    group: Option<Pid>,
    port: u16,
    /// The clients' sockets are on another machine, where they cannot be counted.
    is_far: bool,
    since: Instant,
    hold: Hold,
}

impl Held {
    fn begin(server: &Server, Hold(time): Hold, is_far: bool) -> Result<Held, Fault> {
        let group = i32::try_from(server.process.id()).ok().and_then(Pid::from_raw);
        let port = server.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let port = port.unwrap_or(0);
        let held = Held { group, port, is_far, since: Instant::now(), hold: Hold(time) };
        held.signal(Signal::STOP)
            .map_err(|why| Fault::Server(format!("it cannot be held: {why}")))?;
        Ok(held)
    }

    /// Whether the time is over and `clients` clients have tried to connect.
    fn is_over(&self, clients: u32) -> bool {
        let since = self.since.elapsed();
        let late = since >= self.hold.0 * HOLD_MAX;
        let all = || [CONNECTED, CONNECTING].into_iter().flat_map(tcp_sockets);
        let here = || all().filter(|it| it.0[1] == self.port).count() >= clients as usize;
        since >= self.hold.0 && (late || self.is_far || here())
    }

    /// Continues the server; returns the time for which it was held, seconds.
    fn end(self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        // The laboratory's servers lead separate groups, their workers included.
        self.group.map_or(Ok(()), |group| kill_process_group(group, signal))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // This fails only if the server has ended, and then there is nothing to continue.
        let _ = self.signal(Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_times_become_repetitions() {
        let mut steps = vec![0; 80];
        (steps[0], steps[1], steps[20], steps[21], steps[61]) = (100, 29, 370, 1, 5);
        let run = CrowdRun { connect_50ms: steps, ..CrowdRun::default() };
        assert_eq!(run.repeats(0), [129, 371, 5], "1, 3, 7 s");
        assert_eq!(run.repeats(4), [129, 371, 0, 5], "1, 2, 3, 4, 5, 7 s");
        assert_eq!(CrowdRun::default().repeats(4), [0]);
    }

    #[test]
    fn a_report_without_connect_times_is_read_too() {
        let text = "{\"clients\":2,\"connected\":2,\"connected_after_s\":0.1,\"replies\":20,\
            \"elapsed_s\":1.5,\"orders_per_s\":13.3,\"clients_failed\":0,\"seed\":null}";
        let run: CrowdRun = serde_json::from_str(text).expect("well formed");
        assert_eq!((run.replies, run.connects().count()), (20, 0));
    }
}
