//! A scripted master in virtual time: the worker's actions as lines of text.

use super::*;
use crate::crew::{Batch, Row};
use rmpv::Value;

const UNIX: f64 = 1_700_000_000.0;

struct Rig {
    worker: Worker,
    now: Now,
    lines: Vec<String>,
}

impl Rig {
    fn new() -> Self {
        let settings = Settings {
            name: "w".to_owned(),
            silence: Duration::from_secs(15),
            patience: Duration::from_secs(300),
        };
        let now = Now { run: Duration::ZERO, unix: UNIX };
        Self { worker: Worker::new(settings, now), now, lines: Vec::new() }
    }

    /// A worker that has dialled, is connected and known, and is ready.
    fn known() -> Self {
        let mut rig = Self::new();
        rig.pass(0.0);
        rig.check(&["dial w"]);
        rig.worker.connected(rig.now);
        rig.hear("ack", map(&[("index", 3.into())]));
        rig.pass(0.0);
        rig.check(&["client_ready -1", "known 3", "stats 0 users 0", "heartbeat ready"]);
        rig.hear("heartbeat", Value::Nil);
        rig
    }

    /// A worker that runs 5 users, ordered at the Unix time `at`.
    fn running(at: f64) -> Self {
        let mut rig = Self::known();
        rig.spawn(at, 5);
        rig.check(&["spawning nil", "targets 5 fresh"]);
        rig.settle(5);
        rig.check(&["spawning_complete 5"]);
        rig
    }

    fn hear(&mut self, kind: &str, data: Value) {
        let message = Value::Array(vec![kind.into(), data, "w".into()]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &message).expect("a vector takes every write");
        self.worker.hear(&bytes, self.now);
        self.drain();
    }

    fn spawn(&mut self, timestamp: f64, count: u64) {
        let spawn = map(&[
            ("timestamp", timestamp.into()),
            ("user_classes_count", map(&[("StockUser", count.into())])),
            ("host", Value::Nil),
            ("stop_timeout", 2.0.into()),
            ("parsed_options", map(&[("depth", 4.into())])),
        ]);
        self.hear("spawn", spawn);
    }

    fn settle(&mut self, count: u64) {
        self.news(CrewEvent::Settled(Users::from([("StockUser".to_owned(), count)])));
    }

    fn done(&mut self, done: u64) {
        let row = Row { done, times: vec![(43_217, done)], ..Row::default() };
        self.news(CrewEvent::Batch(Box::new(Batch { rows: vec![row], ..Batch::default() })));
    }

    fn news(&mut self, news: CrewEvent) {
        self.worker.news(news, self.now);
        self.drain();
    }

    fn lost(&mut self) {
        self.worker.lost("it broke", self.now);
        self.drain();
    }

    fn connected(&mut self) {
        self.worker.connected(self.now);
        self.drain();
    }

    /// One thing that happens: a message of the master, news of the crew, or time that passes;
    /// under `echo` a master answers every heartbeat. Orders come at seconds after [`UNIX`].
    fn act(&mut self, act: &str) {
        let (name, rest) = act.split_once(' ').unwrap_or((act, ""));
        let numbers: Vec<f64> = rest.split(' ').filter_map(|it| it.parse().ok()).collect();
        let count = || *numbers.last().expect("a number") as u64;
        match name {
            "ack" => self.hear("ack", map(&[("index", 3.into())])),
            "unnumbered" => self.hear("ack", Value::Nil),
            "spawn" => self.spawn(UNIX + numbers[0], count()),
            "settle" => self.settle(count()),
            "done" => self.done(count()),
            "halted" => self.news(CrewEvent::Halted),
            "trouble" => {
                let (what, place) = (rest.to_owned(), "mix".to_owned());
                self.news(CrewEvent::Problem(Problem { what, place }));
            }
            "pass" | "echo" => self.pass_echoing(numbers[0], name == "echo"),
            "lost" => self.lost(),
            "connected" => self.connected(),
            "interrupt" => self.worker.interrupt(self.now),
            message => self.hear(message, Value::Nil),
        }
    }

    /// Lets time pass, stopping at each wake.
    fn pass(&mut self, seconds: f64) {
        self.pass_echoing(seconds, false);
    }

    /// [`Rig::pass`] with a master that answers every heartbeat.
    fn pass_echoing(&mut self, seconds: f64, echo: bool) {
        let end = self.now.run + Duration::from_secs_f64(seconds);
        loop {
            let wake = self.worker.wake();
            if wake > end {
                break;
            }
            self.at(wake.max(self.now.run));
            self.worker.tick(ProcessUsage { cpu: 12.5, memory: 4096 }, self.now);
            self.drain();
            if echo {
                self.hear("heartbeat", Value::Nil);
            }
        }
        self.at(end);
    }

    fn at(&mut self, run: Duration) {
        self.now = Now { run, unix: UNIX + run.as_secs_f64() };
    }

    fn drain(&mut self) {
        while let Some(action) = self.worker.action() {
            let line = match action {
                Action::Dial(name) => format!("dial {name}"),
                Action::Hangup => "hangup".to_owned(),
                Action::Send(bytes) => sent(&bytes),
                Action::UserTargets(targets) => {
                    assert_eq!((targets.index, targets.options.0["depth"].as_u64()), (3, Some(4)));
                    let fresh = if targets.fresh { " fresh" } else { "" };
                    format!("targets {}{fresh}", targets.users["StockUser"])
                }
                Action::Halt(patience) => format!("halt {patience:?}"),
                Action::Known(_, index) => format!("known {index}"),
                Action::TestSummary(account) => {
                    format!("account {} {}", account.test, account.sum.requests)
                }
                Action::Say(_) => continue,
                Action::Exit(Exit::Alone(_)) => "exit alone".to_owned(),
                Action::Exit(exit) => format!("exit {exit:?}"),
            };
            self.lines.push(line);
        }
    }

    fn check(&mut self, expected: &[&str]) {
        self.drain();
        assert_eq!(std::mem::take(&mut self.lines), expected);
    }

    /// Discards the recorded actions, except lines with these beginnings.
    fn only(&mut self, beginnings: &[&str]) {
        self.drain();
        self.lines.retain(|line| beginnings.iter().any(|beginning| line.starts_with(beginning)));
    }
}

fn map(fields: &[(&str, Value)]) -> Value {
    fields.iter().map(|(key, value)| (Value::from(*key), value.clone())).collect::<Vec<_>>().into()
}

fn sent(bytes: &[u8]) -> String {
    let message = rmpv::decode::read_value(&mut &*bytes).expect("MessagePack");
    let parts = message.as_array().expect("an array");
    let field = |name: &str| {
        let pairs = parts[1].as_map().expect("a map").iter();
        let mut found = pairs.filter(|(key, _)| key.as_str() == Some(name));
        found.next().expect(name).1.clone()
    };
    match parts[0].as_str().expect("a kind") {
        "heartbeat" => {
            assert_eq!(field("current_memory_usage").as_u64(), Some(4096));
            assert_eq!(field("current_cpu_usage").as_f64(), Some(12.5));
            format!("heartbeat {}", field("state").as_str().expect("text"))
        }
        "stats" => {
            let total = field("stats_total");
            let pairs = total.as_map().expect("a map").iter();
            let done = pairs.filter(|(key, _)| key.as_str() == Some("num_requests"));
            let done: Vec<String> = done.map(|(_, value)| value.to_string()).collect();
            format!("stats {} users {}", done[0], field("user_count"))
        }
        "spawning_complete" => format!("spawning_complete {}", field("user_count")),
        "exception" => format!("exception {}", field("msg")),
        "logs" => format!("logs {}", field("logs").as_array().expect("lines").len()),
        kind => format!("{kind} {}", parts[1]),
    }
}

/// Rows of what happens to a worker, and of all that it does then. Before a bar stand the
/// beginnings of the lines that count.
fn play(mut rig: Rig, rows: &[(&str, &str)]) -> Rig {
    for (happens, expected) in rows {
        happens.split("; ").for_each(|act| rig.act(act));
        let (kept, lines) = expected.split_once(" | ").unwrap_or(("", expected));
        rig.only(&kept.split(", ").collect::<Vec<_>>());
        let lines: Vec<&str> = lines.split(", ").filter(|line| !line.is_empty()).collect();
        let found = std::mem::take(&mut rig.lines);
        assert_eq!(found, lines, "after {happens}");
    }
    rig
}

#[test]
fn a_test_from_its_order_to_the_next_one() {
    play(
        Rig::running(UNIX),
        &[
            ("echo 2.5", "heartbeat running, heartbeat running"),
            ("done 7; echo 1", "stats 7 users 5, heartbeat running"),
            ("stop", "halt 2s"),
            (
                "done 2; halted",
                "account 1 9, stats 2 users 0, heartbeat running, client_stopped nil",
            ),
            ("pass 1.9", ""),
            ("pass 0.2", "client_ready -1"),
            ("ack; pass 0", "stats 0 users 0, heartbeat ready"),
            ("spawn 20 4", "spawning nil, targets 4 fresh"),
            ("settle 4; done 1; stop; halted", "account | account 2 1"),
        ],
    );
}

#[test]
fn users_go_up_and_down_and_old_orders_are_void() {
    play(
        Rig::running(UNIX + 5.0),
        &[
            ("spawn 6 9; spawn 7 2", "spawning nil, targets 9, spawning nil, targets 2"),
            ("settle 9; pass 0", "spawning_complete 9"),
            ("settle 2", "spawning_complete 2"),
            ("spawn 7 50", "spawning nil"),
            ("echo 1", "heartbeat running"),
        ],
    );
}

#[test]
fn an_introduction_is_repeated_on_the_same_connection_first() {
    let thrice = "dial w, client_ready -1, client_ready -1, client_ready -1";
    let rows = [("pass 0; connected; pass 10.5", thrice), ("unnumbered", "known | known 0")];
    play(Rig::new(), &rows);
}

#[test]
fn a_master_that_is_not_there_is_dialled_until_patience_ends() {
    let mut rig = Rig::new();
    for _ in 0..70 {
        rig.pass(5.0);
        rig.lost();
    }
    let dials = rig.lines.iter().filter(|line| *line == "dial w").count();
    assert!((60..80).contains(&dials), "{dials} tries in 350 s");
    assert!(rig.lines.contains(&"exit alone".to_owned()));
}

#[test]
fn silence_breaks_the_connection_and_users_go_on() {
    play(
        Rig::running(UNIX),
        &[
            ("pass 14.9", "hangup | "),
            ("pass 1", "hangup, dial, halt | hangup, dial w"),
            (
                "done 11; connected; ack; pass 0",
                "client_ready -1, known 3, stats 11 users 5, heartbeat running",
            ),
            // The clock of a restarted master may be behind.
            ("spawn -100 6", "spawning nil, targets 6"),
            ("echo 30", "halt | "),
        ],
    );
}

#[test]
fn what_was_told_in_vain_is_told_again_and_nothing_else() {
    play(
        Rig::running(UNIX),
        &[
            ("done 7; echo 4", "stats | stats 7 users 5"),
            ("done 1; pass 3; done 2; pass 3", "stats | stats 1 users 5, stats 2 users 5"),
            ("done 4; lost; pass 1; connected; ack; pass 0", "stats | stats 7 users 5"),
            ("heartbeat; lost; pass 1; connected; ack; pass 0", "stats | stats 0 users 5"),
        ],
    );
}

#[test]
fn who_is_not_answered_comes_back_under_a_new_name() {
    let again = ("pass 0.5; connected; pass 5", "dial w, client_ready -1, hangup");
    let rows = [
        ("lost", ""),
        again,
        again,
        again,
        again,
        ("pass 0.5", "dial w.1"),
        ("connected; pass 12", "client_ready -1, client_ready -1, client_ready -1"),
    ];
    play(Rig::known(), &rows);
}

#[test]
fn users_whom_no_master_wants_are_let_go() {
    let alone = [
        ("lost; pass 59", "halt | "),
        ("pass 1.5", "halt | halt 250ms"),
        ("halted", "account 1 0"),
    ];
    play(Rig::running(UNIX), &alone);
    let unwanted = [
        ("lost; pass 1; connected; ack; echo 10.5", "halt | halt 250ms"),
        ("halted", "client, account | account 1 0"),
        ("spawn 90 1", "spawning nil, targets 1 fresh"),
    ];
    play(Rig::running(UNIX), &unwanted);
}

#[test]
fn orders_that_cross_a_stop_wait_for_its_end() {
    let stopped = "halt, account, client | halt 2s, account 1 0, client_stopped nil";
    let ready = "client, spawn, targets | client_ready -1, spawning nil, targets 8 fresh";
    play(Rig::running(UNIX), &[("stop; spawn 1 8; halted", stopped), ("echo 2", ready)]);
}

#[test]
fn a_crew_that_hangs_holds_up_nothing() {
    let rows =
        [("stop; echo 7", "client | client_stopped nil"), ("echo 2", "client | client_ready -1")];
    play(Rig::running(UNIX), &rows);
}

#[test]
fn quit_reports_at_once_and_once_more() {
    let rows = [
        ("done 4; quit", "stats 4 users 5, heartbeat running, halt 0ns"),
        ("done 1; halted", "account 1 5, stats 1 users 0, heartbeat running, exit ByMaster"),
    ];
    play(Rig::running(UNIX), &rows);
    play(Rig::known(), &[("quit", "exit ByMaster")]);
    play(Rig::running(UNIX), &[("quit; pass 0.4", "exit | exit ByMaster")]);
}

#[test]
fn an_interrupt_ends_users_and_tells_the_master() {
    let last = "account 1 0, stats 0 users 0, quit nil, exit Interrupted";
    let kept = format!("account, stats, quit, exit | {last}");
    play(Rig::running(UNIX), &[("interrupt", "halt | halt 250ms"), ("halted", &kept)]);
}

#[test]
fn a_corrupt_frame_leads_to_a_new_connection() {
    let back = ("connected; ack", "client_ready -1, known 3");
    play(Rig::running(UNIX), &[("reconnect", "hangup"), ("pass 0.3", "dial w"), back]);
}

#[test]
fn troubles_are_told_once_a_test_and_kept_while_nobody_listens() {
    play(
        Rig::running(UNIX),
        &[
            ("trouble bad mix; trouble bad mix", "exception \"bad mix\""),
            ("lost; trouble no ports left; pass 1", "dial w"),
            ("connected; ack", "client_ready -1, known 3, exception \"no ports left\""),
        ],
    );
}

#[test]
fn logs_are_told_when_there_are_new_ones() {
    let mut rig = play(Rig::known(), &[("echo 30", "logs | logs 1")]);
    rig.news(CrewEvent::Log(Level::Warning, "the generator is the limit".to_owned()));
    play(rig, &[("echo 10", "logs | logs 2")]);
}

#[test]
fn bytes_that_mean_nothing_do_no_harm() {
    let mut rig = Rig::running(UNIX);
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random % 40)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        random = random.wrapping_add(1);
        rig.worker.hear(&bytes, rig.now);
        while rig.worker.action().is_some() {}
    }
    rig.hear("from a later version", Value::Nil);
    rig.hear("spawn", Value::Nil);
    rig.hear("spawn", map(&[("timestamp", f64::NAN.into())]));
    rig.check(&[]);
    rig.pass_echoing(1.0, true);
    rig.check(&["heartbeat running"]);
}

/// A master that adds up the reports it receives, over a connection that breaks at any message.
/// Received heartbeats are answered before the connection breaks.
struct Adder {
    rig: Rig,
    heard: u64,
    random: u64,
}

impl Adder {
    fn draw(&mut self, below: u64) -> u64 {
        // Knuth's generator (MMIX); its high bits are the random ones.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = self.random.wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// Receives the first `count` messages of the worker. A report and the heartbeat after it are
    /// sent together and arrive together.
    fn hear(&mut self, count: usize) {
        let mut lines = std::mem::take(&mut self.rig.lines);
        let is_report = |line: &String| line.starts_with("stats");
        let pair = count.checked_sub(1).and_then(|at| lines.get(at)).is_some_and(is_report);
        lines.truncate(count.saturating_add(usize::from(pair)));
        for line in lines {
            let mut words = line.split(' ');
            match (words.next(), words.next()) {
                (Some("stats"), Some(done)) => self.heard += done.parse::<u64>().expect("a count"),
                (Some("heartbeat"), _) => self.rig.hear("heartbeat", Value::Nil),
                (Some("dial"), _) => self.rig.connected(),
                (Some("client_ready"), _) => {
                    self.rig.hear("ack", map(&[("index", 3.into())]));
                    let at = UNIX + self.rig.now.run.as_secs_f64();
                    self.rig.spawn(at, 5);
                    self.rig.settle(5);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn nothing_is_lost_or_told_twice_however_often_a_connection_breaks() {
    for seed in 0..200 {
        let mut adder = Adder { rig: Rig::running(UNIX), heard: 0, random: seed };
        let mut done = 0;
        for _ in 0..100 {
            let some = adder.draw(10);
            adder.rig.done(some);
            done += some;
            let ms = adder.draw(2_000);
            adder.rig.pass(ms as f64 / 1e3);
            if adder.draw(4) == 0 {
                let until = adder.draw(6) as usize;
                adder.hear(until);
                adder.rig.lost();
            } else {
                adder.hear(usize::MAX);
            }
        }
        for _ in 0..40 {
            adder.rig.pass(0.5);
            adder.hear(usize::MAX);
        }
        assert_eq!(adder.heard, done, "seed {seed}");
    }
}
