//! The accept queue: a client that finds it full waits a whole second, whatever the architecture.
//!
//! At 500 and 1000 clients the published times are 1.4 and 3.1 s longer than the clients' sleep,
//! and single runs differ by whole seconds. This is the signature of repeated SYNs. The course's
//! servers call `listen` with 1024, but the kernel of the day cut every queue to 128 (`somaxconn`,
//! until Linux 5.4). The effect is exact: of N clients that connect while the server does not
//! accept, exactly N - 129 wait a second.

use crate::counters::{Counters, queue_limit, syn_linear_timeouts};
use crate::course::{CLIENTS, Mix, ORDERS, PAUSE, RUNS, SOURCE};
use crate::draft::{Draft, Part};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::{syn_steps, turned_away};
use crate::stage::{Crowd, CrowdRun, Hold, Settings, Stage};
use document::{Mark, Series};
use stats::words;
use std::time::Duration;

/// The longest queue that kernels gave before Linux 5.4.
const SHORT: u32 = 128;
/// The longest that they give since.
const LONG: u32 = 4_096;
/// The time for which the server is held for each client, as if accepting one took this long. A
/// server that resolves each peer's name, or prints a line to a slow terminal, is not faster.
const HOLD_EACH: Duration = Duration::from_micros(1_200);
/// Sizes of the crowd: the last three published.
const SIZES: [u32; 3] = [CLIENTS[2], CLIENTS[3], CLIENTS[4]];
/// The two servers of the report.
const ENGINES: [&str; 2] = ["select", "pool --workers 1000"];
/// Start, forks, retransmissions and end of a crowd, beside its sleep.
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

/// The parameters fixed before the first crowd.
struct Design {
    sizes: Vec<u32>,
    runs: u32,
    /// The short queue.
    short: u32,
    /// The time for which the server is held for each client; `None` for the trial without.
    hold_each: Option<Duration>,
    /// SYNs that wait one second before waits double.
    linear: u32,
    pause: Duration,
    /// Clients that waited although the server was not held, of how many.
    natural: Option<(u32, u32)>,
}

impl Exhibit for AcceptQueue {
    fn name(&self) -> &'static str {
        "accept-queue"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let sizes = settings.clients(&SIZES).len() as u32;
        let crowds = 1 + sizes * settings.blocks(RUNS) * 2 * ENGINES.len() as u32;
        Effort::new(crowds, settings.scale.of(PAUSE) * ORDERS + OVERHEAD)
    }

    fn has_visitors(&self) -> bool {
        true
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let mut design = Design::of(stage.settings());
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
        Ok(design.draft(&storms))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        Design::of(settings).draft(&[])
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
    fn of(settings: &Settings) -> Design {
        let sizes = settings.clients(&SIZES);
        let most = sizes.last().copied().unwrap_or(0);
        // A small crowd needs a short queue to overflow it, and the same slowness for each place.
        let short = if most > 2 * SHORT { SHORT } else { (most / 4).max(1) };
        Design {
            runs: settings.blocks(RUNS),
            sizes,
            short,
            hold_each: Some(HOLD_EACH * SHORT / short),
            linear: syn_linear_timeouts(),
            pause: settings.scale.of(PAUSE),
            natural: None,
        }
    }

    /// Tests whether the largest crowd overflows the short queue by itself. On loopback it seldom
    /// does, and never the same way twice, so later crowds are held anyway. Returns whether to
    /// continue.
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
        let name = format!("{}, backlog {backlog}", name(engine));
        let server =
            format!("--engine {} --backlog {backlog} --framing fixed:8192", ENGINES[engine]);
        let crowd = Crowd::course(&name, server, clients, self.pause, Mix::Mixed);
        let crowd = Crowd { hold: self.hold_each.map(|each| Hold(each * clients)), ..crowd };
        let found = stage.crowd(&crowd)?;
        Ok(found.map(|(run, kernel)| Storm { engine, backlog, clients, run, kernel }))
    }

    fn draft(&self, storms: &[Storm]) -> Draft {
        let mut it = Draft::default();
        let most = storms.iter().map(|it| it.clients).max().unwrap_or(0);
        let [short, long] = [self.short, LONG].map(|backlog| self.worst(storms, backlog, most));
        let steps = syn_steps(self.linear).take(6).map(|step| step.as_secs().to_string());
        let want = turned_away(most, self.short);
        it.set("source", SOURCE);
        it.set("orders", ORDERS);
        it.set("pause", words::span(self.pause));
        it.set("most", words::count(most));
        it.set("short", words::count(self.short));
        it.set("long", words::count(LONG));
        it.set("late_short", short.map(words::count));
        it.set("late_long", long);
        it.set("want", want);
        it.set("steps", steps.collect::<Vec<_>>());
        it.set("linear", self.linear);
        it.set("hold", self.hold_each.map(words::span));
        it.set("holds", self.holds());
        it.set("natural", self.natural.map(|(late, clients)| [late, clients]));
        it.set("waited_short", self.waited(storms, self.short));
        it.set("waited_long", self.waited(storms, LONG));
        published(&mut it);
        it.flawed = self.side(storms, self.short);
        it.corrected = self.side(storms, LONG);
        self.together(&mut it, storms);
        it.facts = self.counted(storms, most);
        if let Some(late) = short {
            it.claim("turned-away", late * 2 >= want && late > 0, f64::from(late));
        }
        it.expect("let-in", long.map(f64::from));
        let same = |it: &&Storm| it.backlog == self.short && it.clients == most;
        let counted = storms.iter().filter(same).filter_map(|it| it.kernel.listen_overflows).max();
        it.expect("kernel-counted", counted.map(|it| it as f64));
        it.expect("equal-again", self.apart(storms, most));
        it
    }

    /// The time for which the server is held, at each size of the crowd.
    fn holds(&self) -> Vec<String> {
        let each = self.hold_each.unwrap_or_default();
        self.sizes.iter().map(|it| format!("{} at {it}", words::span(each * *it))).collect()
    }

    /// The most clients of a crowd of that size that waited in any run.
    fn worst(&self, storms: &[Storm], backlog: u32, clients: u32) -> Option<u32> {
        let same = |it: &&Storm| it.backlog == backlog && it.clients == clients;
        storms.iter().filter(same).map(|it| it.late(self.linear)).max()
    }

    /// At each size of the crowd: clients that waited, and how many arithmetic expects.
    fn waited(&self, storms: &[Storm], backlog: u32) -> Vec<String> {
        let at = |clients: &u32| {
            let late = words::count(self.worst(storms, backlog, *clients)?);
            let law = words::count(turned_away(*clients, backlog));
            Some(format!("{late} of {} (arithmetic: {law})", words::count(*clients)))
        };
        self.sizes.iter().filter_map(at).collect()
    }

    fn side(&self, storms: &[Storm], backlog: u32) -> Part {
        let mut part = Part::default();
        let mut all: Vec<&Storm> = storms.iter().filter(|it| it.backlog == backlog).collect();
        all.sort_by_key(|it| (it.clients, it.engine));
        for it in &all {
            let repeats = it.run.repeats(self.linear).into_iter();
            part.row([
                words::count(it.clients),
                name(it.engine).to_string(),
                words::seconds(self.beyond(it)),
                words::seconds(it.run.connected_after_s),
                words::seconds(it.run.elapsed_s - it.run.connected_after_s),
                repeats.map(words::count).collect::<Vec<_>>().join(", "),
            ]);
        }
        self.arrivals(&mut part, &all, slowest(storms));
        part
    }

    /// The clients' time beyond their own sleep, seconds.
    fn beyond(&self, it: &Storm) -> f64 {
        it.run.elapsed_s - (self.pause * ORDERS).as_secs_f64()
    }

    /// The number of connected clients over time, for the first run at each size; drawn to the same
    /// time for both queues, so that they can be compared.
    fn arrivals(&self, part: &mut Part, rows: &[&Storm], until: Duration) {
        for &clients in &self.sizes {
            let Some(it) = rows.iter().find(|it| it.clients == clients) else { continue };
            let mut all = 0;
            let mut points = vec![(0.0, 0.0)];
            for (edge, count) in it.run.connects() {
                let at = edge.as_secs_f64();
                points.push((at, f64::from(all)));
                all += count;
                points.push((at + 0.05, f64::from(all)));
            }
            points.push((until.as_secs_f64().max(0.1), f64::from(all)));
            let name = format!("{} clients, {}", words::count(clients), name(it.engine));
            part.series(Series::measured(name, points));
        }
    }

    fn together(&self, it: &mut Draft, storms: &[Storm]) {
        for (side, name) in ["event-based", "thread-based"].iter().enumerate() {
            let times = Mix::Mixed.elapsed_s()[side].map(|it| it - 10.0);
            let points = CLIENTS.map(f64::from).into_iter().zip(times);
            it.together.series(Series::published(format!("published, {name}"), points));
        }
        for backlog in [self.short, LONG] {
            for engine in 0..ENGINES.len() {
                let same = |it: &&Storm| it.backlog == backlog && it.engine == engine;
                let found = storms.iter().filter(same);
                let points = found.map(|it| (f64::from(it.clients), self.beyond(it)));
                let title = format!("backlog {}, {}", words::count(backlog), name(engine));
                it.together.series(Series::measured(title, points).drawn_as(Mark::Point));
            }
        }
    }

    /// The distance between the medians of both servers' elapsed times with the long queue,
    /// seconds.
    fn apart(&self, storms: &[Storm], clients: u32) -> Option<f64> {
        let [select, pool] = [0, 1].map(|engine| {
            let same =
                |it: &&Storm| it.backlog == LONG && it.clients == clients && it.engine == engine;
            let times: Vec<f64> = storms.iter().filter(same).map(|it| it.run.elapsed_s).collect();
            stats::median(&times)
        });
        Some((pool? - select?).abs())
    }

    /// The kernel's counts during the largest crowd's first run, at each queue and server.
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
}

/// The slowest connection of all, to the end of its step.
fn slowest(storms: &[Storm]) -> Duration {
    let all = storms.iter().flat_map(|it| it.run.connects());
    all.map(|(edge, _)| edge).max().unwrap_or_default() + Duration::from_millis(50)
}

impl Storm {
    /// Clients whose SYN was retransmitted.
    fn late(&self, linear: u32) -> u32 {
        self.run.repeats(linear).iter().skip(1).sum()
    }
}

fn name(engine: usize) -> &'static str {
    ENGINES[engine].split(' ').next().unwrap_or_default()
}

fn published(it: &mut Draft) {
    let [event, thread] = Mix::Mixed.elapsed_s();
    for ((clients, event), thread) in CLIENTS.into_iter().zip(event).zip(thread) {
        it.published.row([
            words::count(clients),
            words::seconds(event),
            words::seconds(event - 10.0),
            words::seconds(thread),
            words::seconds(thread - 10.0),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::CameOut;

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
    fn clients_that_wait_for_a_timer_are_counted_and_compared_with_arithmetic() {
        let draft = design().draft(&[storm(SHORT, 129, 371), storm(LONG, 500, 0)]);
        let document = draft.document(&AcceptQueue.text()).expect("it fits");
        let found: Vec<(&str, CameOut)> =
            document.findings.iter().map(|it| (it.name.as_str(), it.came_out)).collect();
        assert_eq!(found, [("turned-away", CameOut::Yes), ("let-in", CameOut::Yes)]);
        assert!(
            document.headline.starts_with("Of 500 clients, 371 waited"),
            "{}",
            document.headline
        );
        let row = &document.flawed.numbers.rows[0];
        assert_eq!(row[5], "129, 371");
        let found = &document.flawed.finding;
        assert!(found.contains("371 of 500 (arithmetic: 371)"), "{found}");
    }

    #[test]
    fn a_queue_that_was_never_full_is_no_artefact() {
        let draft = design().draft(&[storm(SHORT, 500, 0), storm(LONG, 499, 1)]);
        let document = draft.document(&AcceptQueue.text()).expect("it fits");
        assert!(
            document.findings.iter().all(|it| it.came_out == CameOut::No),
            "{:?}",
            document.findings
        );
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
