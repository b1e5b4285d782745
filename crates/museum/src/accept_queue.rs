//! The accept queue: who finds it full waits a whole second, whatever the architecture.
//!
//! At 500 and 1000 clients the published times are 1.4 and 3.1 s longer than the clients' sleep,
//! and single runs differ by whole seconds. That is the signature of SYNs sent again. The course's
//! servers call `listen` with 1024, but the kernel of the day cut every queue to 128 (`somaxconn`,
//! until Linux 5.4). The surprising thing is how exact it can be made: of N clients who knock while
//! nobody accepts, N - 129 wait a second, no more and no fewer.

use crate::counters::{Counters, queue_limit, syn_linear_timeouts};
use crate::course::{CLIENTS, Mix, ORDERS, PAUSE, RUNS, SOURCE};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::{syn_steps, turned_away};
use crate::showing::{Axis, Drawn, Finding, Grid, Plot, Published, Series, Showing, Side};
use crate::stage::{Crowd, CrowdRun, Hold, Settings, Stage};
use crate::words;
use std::time::Duration;

/// The longest queue that kernels gave before Linux 5.4.
const SHORT: u32 = 128;
/// The longest that they give since.
const LONG: u32 = 4_096;
/// For how long the server is held for each client: as if accepting one took so long. A server that
/// asks a name server for each peer's name, or prints a line to a slow terminal, is not faster.
const HOLD_EACH: Duration = Duration::from_micros(1_200);
/// Sizes of the crowd: the last three published.
const SIZES: [u32; 3] = [CLIENTS[2], CLIENTS[3], CLIENTS[4]];
/// The two servers of the report.
const ENGINES: [&str; 2] = ["select", "pool --workers 1000"];
/// Beginning, forks, retransmissions and end of a crowd, beside its sleep.
const OVERHEAD: Duration = Duration::from_millis(2_300);

/// The exhibit.
pub struct AcceptQueue;

/// One crowd at one server.
struct Storm {
    engine: usize,
    backlog: u32,
    clients: u32,
    run: CrowdRun,
    kernel: Counters,
}

/// What was decided before the first crowd.
struct Design {
    sizes: Vec<u32>,
    runs: u32,
    /// The short queue.
    short: u32,
    /// For how long the server is held for each client; none while it is tried without.
    hold_each: Option<Duration>,
    /// SYNs that wait one second before waits double.
    linear: u32,
    pause: Duration,
    /// Clients that waited although nobody held the server, of how many.
    natural: Option<(u32, u32)>,
}

impl Exhibit for AcceptQueue {
    fn name(&self) -> &'static str {
        "accept-queue"
    }

    fn title(&self) -> &'static str {
        "The accept queue"
    }

    fn about(&self) -> &'static str {
        "a queue of 128 makes 1000 clients wait whole seconds, on any architecture"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let sizes = settings.clients(&SIZES).len() as u32;
        let crowds = 1 + sizes * settings.blocks(RUNS) * 2 * ENGINES.len() as u32;
        Effort::new(crowds, settings.scale.of(PAUSE) * ORDERS + OVERHEAD)
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let mut design = Design::new(stage);
        let mut storms = Vec::new();
        if design.probe(stage)? {
            'all: for run in 0..design.runs {
                for &clients in &design.sizes {
                    for (backlog, engine) in order(run, design.short) {
                        match design.storm(stage, engine, backlog, clients)? {
                            Some(storm) => storms.push(storm),
                            None => break 'all,
                        }
                    }
                }
            }
        }
        if queue_limit().is_some_and(|limit| limit < LONG) {
            stage.doubt(format!(
                "net.core.somaxconn cuts every queue here to {}, so the long queue is that long.",
                queue_limit().unwrap_or(0)
            ));
        }
        Ok(design.told(&storms))
    }
}

/// Both queues at both servers; the order turns round from run to run.
fn order(run: u32, short: u32) -> Vec<(u32, usize)> {
    let mut all = vec![(short, 0), (LONG, 0), (short, 1), (LONG, 1)];
    if run % 2 == 1 {
        all.reverse();
    }
    all
}

impl Design {
    fn new(stage: &Stage<'_>) -> Design {
        let sizes = stage.settings().clients(&SIZES);
        let most = sizes.last().copied().unwrap_or(0);
        // A small crowd needs a short queue to overflow it, and the same slowness for each place.
        let short = if most > 2 * SHORT { SHORT } else { (most / 4).max(1) };
        Design {
            runs: stage.settings().blocks(RUNS),
            sizes,
            short,
            hold_each: Some(HOLD_EACH * SHORT / short),
            linear: syn_linear_timeouts(),
            pause: stage.wait(PAUSE),
            natural: None,
        }
    }

    /// Tries whether the largest crowd overflows the short queue by itself. On loopback it seldom
    /// does, and never twice alike, so what follows is held all the same. Returns whether to go on.
    fn probe(&mut self, stage: &mut Stage<'_>) -> Result<bool, Fault> {
        let hold_each = self.hold_each.take();
        let most = self.sizes.last().copied().unwrap_or(0);
        let storm = self.storm(stage, 0, self.short, most)?;
        self.hold_each = hold_each;
        self.natural = storm.as_ref().map(|it| (it.late(self.linear), it.clients));
        Ok(storm.is_some())
    }

    fn storm(
        &self,
        stage: &mut Stage<'_>,
        engine: usize,
        backlog: u32,
        clients: u32,
    ) -> Result<Option<Storm>, Fault> {
        let crowd = Crowd {
            name: format!("{}, backlog {backlog}", name(engine)),
            server: format!(
                "--engine {} --backlog {backlog} --framing fixed:8192",
                ENGINES[engine]
            ),
            clients,
            orders: ORDERS,
            pause: self.pause,
            mix: Mix::Mixed.flag(),
            hold: self.hold_each.map(|each| Hold(each * clients)),
        };
        let found = stage.crowd(&crowd)?;
        Ok(found.map(|(run, kernel)| Storm { engine, backlog, clients, run, kernel }))
    }

    fn told(&self, storms: &[Storm]) -> Showing {
        let most = storms.iter().map(|it| it.clients).max().unwrap_or(0);
        let [short, long] = [self.short, LONG].map(|backlog| self.worst(storms, backlog, most));
        let steps: Vec<String> =
            syn_steps(self.linear).take(6).map(|step| step.as_secs().to_string()).collect();
        Showing {
            headline: match (short, long) {
                (Some(short), Some(long)) => format!(
                    "Of {} clients {} waited whole seconds to connect with a queue of {}, and {} \
                     with a queue of {}, whatever the architecture. The published times have the \
                     same steps.",
                    words::count(most),
                    words::count(short),
                    self.short,
                    if long == 0 { "none".to_string() } else { words::count(long) },
                    words::count(LONG),
                ),
                _ => "Stopped before both queues had been tried.".to_string(),
            },
            published: published(),
            flawed: self.side(storms, self.short),
            corrected: self.side(storms, LONG),
            why: self.why(&steps),
            lesson: "Measure connecting and asking apart; times that differ by whole seconds are \
                     timers, not work."
                .to_string(),
            together: Some(self.together(storms)),
            findings: self.findings(storms, most),
            facts: [self.counted(storms, most), self.facts(&steps)].concat(),
            doubts: Vec::new(),
        }
    }

    /// The most clients of a crowd of that size that any run made wait.
    fn worst(&self, storms: &[Storm], backlog: u32, clients: u32) -> Option<u32> {
        let same = |it: &&Storm| it.backlog == backlog && it.clients == clients;
        storms.iter().filter(same).map(|it| it.late(self.linear)).max()
    }

    fn side(&self, storms: &[Storm], backlog: u32) -> Side {
        let mut numbers = Grid::new(&[
            "clients",
            "server",
            "beyond the sleep",
            "connecting",
            "asking",
            "SYN sent again 0, 1, 2 … times",
        ]);
        let mut rows: Vec<&Storm> = storms.iter().filter(|it| it.backlog == backlog).collect();
        rows.sort_by_key(|it| (it.clients, it.engine));
        for it in &rows {
            let repeats = it.run.repeats(self.linear).into_iter();
            numbers.row([
                words::count(it.clients),
                name(it.engine).to_string(),
                words::seconds(self.beyond(it)),
                words::seconds(it.run.connected_after_s),
                words::seconds(it.run.elapsed_s - it.run.connected_after_s),
                repeats.map(words::count).collect::<Vec<_>>().join(", "),
            ]);
        }
        let late: Vec<String> = self
            .sizes
            .iter()
            .filter_map(|&clients| {
                let late = self.worst(storms, backlog, clients)?;
                let law = words::count(turned_away(clients, backlog));
                Some(format!(
                    "{} of {} (arithmetic: {law})",
                    words::count(late),
                    words::count(clients)
                ))
            })
            .collect();
        Side {
            setup: format!(
                "The course's clients, {ORDERS} orders each with a sleep of {}, at a server that \
                 listens with a backlog of {}. {} Connecting lasts until the last client is in, \
                 asking from then to the end.",
                words::span(self.pause),
                words::count(backlog),
                self.held_words(),
            ),
            finding: match late.is_empty() {
                true => "Stopped before a crowd had come.".to_string(),
                false => format!("Clients that waited for a timer: {}.", late.join(", ")),
            },
            plot: rows.last().map(|_| self.arrivals(&rows, slowest(storms))),
            numbers,
        }
    }

    fn held_words(&self) -> String {
        match self.hold_each {
            Some(each) => format!(
                "Loopback is quicker than the network and the machines of the original, so \
                 accepting is delayed: the server is stopped (SIGSTOP) when the first client \
                 comes, for {} a client, and then goes on undisturbed.",
                words::span(each)
            ),
            None => "Nothing is delayed.".to_string(),
        }
    }

    /// What the clients took beyond their own sleep, seconds.
    fn beyond(&self, it: &Storm) -> f64 {
        it.run.elapsed_s - (self.pause * ORDERS).as_secs_f64()
    }

    /// Clients that have a connection over time, for the first run at each size; drawn to the same
    /// time for both queues, so that they can be held against each other.
    fn arrivals(&self, rows: &[&Storm], until: Duration) -> Plot {
        let mut series = Vec::new();
        for &clients in &self.sizes {
            let Some(it) = rows.iter().find(|it| it.clients == clients) else { continue };
            let mut all = 0;
            let mut places = vec![(0.0, 0.0)];
            for (edge, count) in it.run.connects() {
                let at = edge.as_secs_f64();
                places.push((at, f64::from(all)));
                all += count;
                places.push((at + 0.05, f64::from(all)));
            }
            places.push((until.as_secs_f64().max(0.1), f64::from(all)));
            let name = format!("{} clients, {}", words::count(clients), name(it.engine));
            series.push(Series::measured(name, places));
        }
        Plot {
            title: "How long connecting took".to_string(),
            caption:
                "Clients whose connection was made within the time: a flat stretch is a timer \
                      that runs, a rise one that has expired."
                    .to_string(),
            x: Axis::linear("seconds to connect"),
            y: Axis::linear("clients"),
            series,
        }
    }

    fn together(&self, storms: &[Storm]) -> Plot {
        let places = |backlog: u32, engine: usize| {
            let same = |it: &&Storm| it.backlog == backlog && it.engine == engine;
            let found = storms.iter().filter(same);
            found.map(|it| (f64::from(it.clients), self.beyond(it))).collect()
        };
        let marks =
            |name: String, places| Series { drawn: Drawn::Marks, ..Series::measured(name, places) };
        let mut series = Vec::new();
        for (side, name) in ["event-based", "thread-based"].iter().enumerate() {
            let times = Mix::Mixed.elapsed_s()[side].map(|it| it - 10.0);
            let places = CLIENTS.map(f64::from).into_iter().zip(times).collect();
            series.push(Series::published(format!("published, {name}"), places));
        }
        for backlog in [self.short, LONG] {
            for (engine, _) in ENGINES.iter().enumerate() {
                let title = format!("backlog {}, {}", words::count(backlog), name(engine));
                series.push(marks(title, places(backlog, engine)));
            }
        }
        Plot {
            title: "Seconds beyond the clients' own sleep".to_string(),
            caption: "Published: means of three runs. Ours: every run.".to_string(),
            x: Axis::log("clients"),
            y: Axis::linear("seconds"),
            series: series.into_iter().filter(|it| !it.places.is_empty()).collect(),
        }
    }

    fn findings(&self, storms: &[Storm], most: u32) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(late) = self.worst(storms, self.short, most) {
            let want = turned_away(most, self.short);
            let expected = format!(
                "with the short queue at least half of the {want} clients that arithmetic turns \
                 away wait for a timer"
            );
            let holds = late * 2 >= want && late > 0;
            found.push(Finding::new("turned-away", holds, f64::from(late), expected));
        }
        if let Some(late) = self.worst(storms, LONG, most) {
            let expected = "with the long queue nobody waits for a timer";
            found.push(Finding::new("let-in", late == 0, f64::from(late), expected));
        }
        let same = |it: &&Storm| it.backlog == self.short && it.clients == most;
        let counted = storms.iter().filter(same).filter_map(|it| it.kernel.listen_overflows).max();
        if let Some(counted) = counted {
            let expected =
                "the kernel counts that the short queue was full (TcpExtListenOverflows)";
            found.push(Finding::new("kernel-counted", counted > 0, counted as f64, expected));
        }
        if let Some(apart_s) = self.apart(storms, most) {
            let expected = "with the long queue the two servers are less than half a second apart, \
                            which is half a timer";
            found.push(Finding::new("equal-again", apart_s < 0.5, apart_s, expected));
        }
        found
    }

    /// How far apart the medians of both servers' elapsed times are with the long queue, seconds.
    fn apart(&self, storms: &[Storm], clients: u32) -> Option<f64> {
        let [select, pool] = [0, 1].map(|engine| {
            let same =
                |it: &&Storm| it.backlog == LONG && it.clients == clients && it.engine == engine;
            let times: Vec<f64> = storms.iter().filter(same).map(|it| it.run.elapsed_s).collect();
            lab::stats::median(&times)
        });
        Some((pool? - select?).abs())
    }

    /// What the kernel counted during the largest crowd's first run, at each queue and server.
    fn counted(&self, storms: &[Storm], most: u32) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        for backlog in [self.short, LONG] {
            for engine in 0..ENGINES.len() {
                let same =
                    |it: &&Storm| (it.backlog, it.engine, it.clients) == (backlog, engine, most);
                let Some(it) = storms.iter().find(same) else { continue };
                let of = |value: Option<u64>| value.map_or(words::NONE.into(), words::count);
                let Counters { listen_overflows, listen_drops, syn_retransmits, .. } = it.kernel;
                rows.push((
                    format!("Kernel, backlog {}, {}", words::count(backlog), name(engine)),
                    format!(
                        "held for {}; ListenOverflows {}, ListenDrops {}, TCPSynRetrans {}, \
                         TCPTimeouts {}, RetransSegs {} (whole machine, {} clients)",
                        words::seconds(it.run.held_s),
                        of(listen_overflows),
                        of(listen_drops),
                        of(syn_retransmits),
                        of(it.kernel.timeouts),
                        of(it.kernel.retransmits),
                        words::count(most),
                    ),
                ));
            }
        }
        rows
    }

    fn facts(&self, steps: &[String]) -> Vec<(String, String)> {
        let held = match self.hold_each {
            Some(each) => format!(
                "yes, {} for each client: {}",
                words::span(each),
                self.sizes
                    .iter()
                    .map(|it| format!("{} at {it}", words::span(each * *it)))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            None => "no".to_string(),
        };
        let natural = match self.natural {
            Some((late, clients)) => format!("{late} of {clients} clients waited for a timer"),
            None => "not tried".to_string(),
        };
        vec![
            ("SYNs are repeated after".into(), format!("{} s …", steps.join(", "))),
            ("SYNs with a fixed wait (tcp_syn_linear_timeouts)".into(), self.linear.to_string()),
            ("Accepting was delayed".into(), held),
            ("Without a delay".into(), natural),
            ("Sleep after each order".into(), words::span(self.pause)),
            ("Not scaled".into(), "the kernel's timers: they belong to the artefact".into()),
        ]
    }

    fn why(&self, steps: &[String]) -> Vec<String> {
        vec![
            "A connection that the kernel has made waits in the listener's queue until the server \
             accepts it. If the queue is full, Linux drops the client's SYN without a word, and \
             the client sends it again when its timer expires, after one second. So a client that \
             came a millisecond too late loses a second."
                .to_string(),
            format!(
                "The times are fixed. Kernels before 6.5 repeat a SYN after 1, 3, 7, 15 s; since \
                 then the first ones come every second. This kernel: {} s. The published times fit \
                 the older stairs: about 1.4 s beyond the sleep at 500 clients and 3.1 s at 1,000. \
                 The two means that stand out, 1.97 and 2.55 s at 500 clients, are what three runs \
                 give of which one or two took 3.1 s instead of 1.4: (1.4 + 1.4 + 3.1) / 3 and \
                 (1.4 + 3.1 + 3.1) / 3. That is an inference; the report does not print single \
                 runs.",
                steps.join(", ")
            ),
            "Read like that, the visible difference between the two published servers is how many \
             of three runs met a second timer. It says nothing about select or threads: the same \
             servers with a longer queue are equal again."
                .to_string(),
            "A queue of N holds N + 1, because the kernel asks for greater than. While the server \
             stands still, N + 1 clients get in and every other one waits for its timer; the table \
             compares that with what was counted."
                .to_string(),
        ]
    }
}

/// The slowest connection of all, to the end of its step.
fn slowest(storms: &[Storm]) -> Duration {
    let all = storms.iter().flat_map(|it| it.run.connects());
    all.map(|(edge, _)| edge).max().unwrap_or_default() + Duration::from_millis(50)
}

impl Storm {
    /// Clients whose SYN was sent again.
    fn late(&self, linear: u32) -> u32 {
        self.run.repeats(linear).iter().skip(1).sum()
    }
}

fn name(engine: usize) -> &'static str {
    ENGINES[engine].split(' ').next().unwrap_or_default()
}

fn published() -> Published {
    let mut numbers = Grid::new(&[
        "clients",
        "event-based, elapsed",
        "beyond 10 s",
        "thread-based, elapsed",
        "beyond 10 s",
    ]);
    let [event, thread] = Mix::Mixed.elapsed_s();
    for ((clients, event), thread) in CLIENTS.into_iter().zip(event).zip(thread) {
        numbers.row([
            words::count(clients),
            words::seconds(event),
            words::seconds(event - 10.0),
            words::seconds(thread),
            words::seconds(thread - 10.0),
        ]);
    }
    Published {
        claim: "Up to 1000 clients there is no great difference; the thread-based server tends to \
                have a slightly higher throughput."
            .to_string(),
        source: SOURCE.to_string(),
        numbers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm(backlog: u32, at_once: u32, later: u32) -> Storm {
        let mut connect_50ms = vec![0; 21];
        (connect_50ms[0], connect_50ms[20]) = (at_once, later);
        let clients = at_once + later;
        let run = CrowdRun { clients, connect_50ms, elapsed_s: 11.0, ..CrowdRun::default() };
        Storm { engine: 0, backlog, clients, run, kernel: Counters::default() }
    }

    fn design() -> Design {
        Design {
            sizes: vec![500],
            runs: 1,
            short: SHORT,
            hold_each: Some(HOLD_EACH),
            linear: 0,
            pause: PAUSE,
            natural: Some((0, 500)),
        }
    }

    #[test]
    fn who_waits_for_a_timer_is_counted_and_compared_with_arithmetic() {
        let showing = design().told(&[storm(SHORT, 129, 371), storm(LONG, 500, 0)]);
        let holds: Vec<(&str, bool)> =
            showing.findings.iter().map(|it| (it.name.as_str(), it.holds)).collect();
        assert_eq!(holds, [("turned-away", true), ("let-in", true)]);
        assert!(showing.headline.starts_with("Of 500 clients 371 waited"), "{}", showing.headline);
        let row = &showing.flawed.numbers.rows[0];
        assert_eq!(row[5], "129, 371");
        let found = &showing.flawed.finding;
        assert!(found.contains("371 of 500 (arithmetic: 371)"), "{found}");
    }

    #[test]
    fn a_queue_that_was_never_full_is_no_artefact() {
        let showing = design().told(&[storm(SHORT, 500, 0), storm(LONG, 499, 1)]);
        assert!(showing.findings.iter().all(|it| !it.holds), "{:?}", showing.findings);
    }

    #[test]
    fn both_queues_meet_both_servers_in_every_run() {
        for run in 0..2 {
            let mut all = order(run, SHORT);
            all.sort_unstable();
            assert_eq!(all, [(SHORT, 0), (SHORT, 1), (LONG, 0), (LONG, 1)]);
        }
    }
}
