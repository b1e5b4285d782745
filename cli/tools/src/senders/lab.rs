//! `roundhouse senders lab`: the four questions, each with its table.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use comfy_table::Table;
use lab::pace::{Around, ClassMix, Company, Knee, Rank, Reading, Sink, Trial, Work, knee};
use language::info;
use pacing::{Sender, probe};
use pages::terminal::ruled;
use serde_json::json;

use super::cast::Factors;

/// The flags of `roundhouse senders lab`.
#[derive(clap::Args)]
pub struct Args {
    /// Senders to compare [default: all that work here]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<Sender>,
    /// Questions to ask [default: all]
    #[arg(long, value_delimiter = ',', value_name = "QUESTION,…")]
    ask: Vec<Question>,
    /// Test every sender under overload also with real-time priority and a negative nice value,
    /// instead of three
    #[arg(long)]
    ranks: bool,
    #[command(flatten)]
    factors: Factors,
    /// Short runs, for a first look
    #[arg(long)]
    quick: bool,
    /// Print one line of JSON for each reading instead of tables
    #[arg(long)]
    json: bool,
}

/// A question to the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Question {
    /// How late do packets leave?
    Pacing,
    /// What does a packet cost?
    Cost,
    /// How many sessions does a core carry?
    Sessions,
    /// What if other processes want the core?
    Overload,
}

/// The ranks under overload: every sender at the usual one, and these also with priority.
const RANKED: [Sender; 3] = [Sender::Plain, Sender::Sendmmsg, Sender::UringChain];
const RANKS: [Rank; 2] = [Rank::Nice(-10), Rank::RealTime(50)];
/// Senders that are overloaded with a mixture of classes, unless others were named.
const MIXED: [Sender; 2] = [Sender::Plain, Sender::Sendmmsg];
/// Parts of the names of senders that the kernel paces by bytes.
const PACED: [&str; 2] = ["tbf", "kernel-rtp"];
/// Streams of the cost of waiting.
const MANY: u32 = 1000;
/// Packets sent as fast as possible.
const FAST: u32 = 400_000;

struct Lab<'a> {
    exe: &'a Path,
    stop: &'a AtomicBool,
    senders: Vec<Sender>,
    args: &'a Args,
    quick: bool,
    json: bool,
    sink: Sink,
}

/// Asks the questions and prints the answers.
///
/// # Errors
/// No sender works on the machine, or pacing is requested for work without a gap.
pub fn run(args: &Args, exe: &Path, stop: &Arc<AtomicBool>) -> Result<()> {
    if args.factors.gap == 0.0 {
        bail!("expected a gap above 0: `--ask cost` also sends as fast as it can by itself");
    }
    let chosen: Vec<Sender> = match args.only.as_slice() {
        [] => Sender::all().collect(),
        only => only.to_vec(),
    };
    let mut senders = Vec::new();
    for sender in chosen {
        match probe(sender) {
            Ok(_) => senders.push(sender),
            Err(why) => info!("left out: {sender} ({why})"),
        }
    }
    if senders.is_empty() {
        bail!("none of the senders works here; `roundhouse senders` says why");
    }
    let (quick, json, sink) = (args.quick, args.json, Sink::Freed);
    let mut lab = Lab { exe, stop, senders, args, quick, json, sink };
    lab.choose_sink();
    let all = Question::value_variants();
    let asked = all.iter().filter(|it| args.ask.is_empty() || args.ask.contains(it));
    for question in asked.take_while(|_| !stop.load(Ordering::Relaxed)) {
        match question {
            Question::Pacing => lab.pacing(),
            Question::Cost => lab.cost(),
            Question::Sessions => lab.sessions(),
            Question::Overload => {
                lab.overload();
                lab.classes();
            }
        }
    }
    Ok(())
}

impl Lab<'_> {
    /// A device that frees packets, or the loopback device where none can be made.
    fn choose_sink(&mut self) {
        let work = Work { streams: 1, packets: 2, gap_us: 1000, ..Work::audio(Duration::ZERO) };
        let found = self.trial(Sender::PlainAbs, work, self.around()).run(self.stop);
        if let Err(why) = found {
            info!("the loopback device in place of one that frees packets: {why}");
            self.sink = Sink::Heard;
        }
    }

    fn around(&self) -> Around {
        Around { cores: super::cast::cores(), sink: self.sink, ..Around::default() }
    }

    fn heard(&self) -> Around {
        Around { sink: Sink::Heard, ..self.around() }
    }

    /// How long a paced run lasts.
    fn time(&self) -> Duration {
        if self.quick { Duration::from_millis(600) } else { Duration::from_secs(3) }
    }

    /// The requested work, for this duration.
    fn work(&self, time: Duration) -> Work {
        let one = self.args.factors.work(1);
        let beats = (time.as_micros() / one.gap().as_micros().max(1)).max(2) as u32;
        Work { packets: beats * one.burst, ..one }
    }

    fn trial(&self, sender: Sender, work: Work, around: Around) -> Trial<'_> {
        Trial { exe: self.exe, sender: sender.name(), peer: None, work, around }
    }

    /// Runs one trial, and prints it as a line if wanted.
    fn read(
        &self,
        question: &str,
        sender: Sender,
        work: Work,
        around: Around,
    ) -> Result<Reading, String> {
        let found = self.trial(sender, work, around).run(self.stop);
        if self.json {
            let (rank, company) = (around.rank.words(), around.company.words());
            println!(
                "{}",
                json!({
                    "question": question, "sender": sender.name(), "work": work, "rank": rank,
                    "company": company, "reading": found.as_ref().ok(),
                    "missing": found.as_ref().err(),
                })
            );
        }
        found
    }

    fn show(&self, title: &str, table: &Table) {
        if !self.json {
            println!("{title}\n{table}\n");
        }
    }

    fn pacing(&self) {
        let work = self.work(self.time());
        let mut rows = table(&LATE);
        for &sender in self.running() {
            let found = self.read("pacing", sender, work, self.heard());
            rows.add_row([vec![sender.to_string()], late(&found)].concat());
        }
        let sink = Sink::Heard.words();
        self.show(&format!("Pacing, ms: {} ({sink})", work.words()), &rows);
    }

    fn cost(&self) {
        let paced = Work { streams: MANY, ..self.work(self.time()) };
        let share = if self.quick { 4 } else { 1 };
        let packets = FAST / share;
        let small = Work { streams: 1, packets, gap_us: 0, burst: 1, payload: 32, ..paced };
        let large = Work { payload: 1316, packets: FAST / share / 2, ..small };
        let around = self.around();
        let soak = Around { soak: true, ..around };
        let mut rows = table(&[
            "sender",
            "paced",
            "whole core",
            "32 B, fast",
            "1316 B, fast",
            "calls",
            "reads",
            "switches",
            "kernel kB",
            "softirq",
        ]);
        for &sender in self.running() {
            let found = self.read("cost, paced", sender, paced, soak);
            let us = |found: &Result<Reading, String>| match found {
                Ok(it) => format!("{:.2}", it.each_ns() / 1e3),
                Err(_) => "–".to_string(),
            };
            let mut row = vec![sender.to_string(), us(&found)];
            let whole = found.as_ref().ok().and_then(|it| it.soak_ns);
            row.push(whole.map_or("–".into(), |ns| format!("{:.2}", ns / 1e3)));
            for work in [small, large] {
                // A sender that the kernel paces by bytes is never as fast as possible.
                row.push(match PACED.iter().any(|part| sender.name().contains(part)) {
                    true => "paced".to_string(),
                    false => us(&self.read("cost, fast", sender, work, around)),
                });
            }
            if let Ok(it) = &found {
                let each = |count: u64| format!("{:.3}", count as f64 / it.sent.max(1) as f64);
                row.extend([each(it.calls), format!("{:.2}", it.read_copies), each(it.switches)]);
                let kb = it.kernel_bytes as f64 / 1024.0 / f64::from(it.streams.max(1));
                row.extend([format!("{kb:.2}"), softirq(&found)]);
            }
            rows.add_row(row);
        }
        let sink = self.sink.words();
        let title = format!(
            "CPU, us a packet ({sink}); paced: {}; sending calls, share of its bytes that calls \
             read, and switches a packet; kernel memory a stream\n\
             whole core: by cycle soak, with what the kernel does by itself; softirq: how often \
             the network's ran for a packet, and the core's time in them and in interrupts, by \
             ticks",
            paced.words()
        );
        self.show(&title, &rows);
    }

    fn sessions(&self) {
        let time = if self.quick { Duration::from_millis(600) } else { Duration::from_secs(2) };
        let start = Work { streams: 500, ..self.work(time) };
        let mut rows =
            table(&["sender", "sink", "sessions", "missed at", "steps: sessions, late ms, core"]);
        for &sender in self.running() {
            let (sink, found) = self.knee(sender, start);
            if self.json {
                let (knee, missing) = (found.as_ref().ok(), found.as_ref().err());
                let name = sender.name();
                let question = "sessions";
                println!(
                    "{}",
                    json!({
                        "question": question, "sender": name, "work": start, "knee": knee,
                        "sink": sink.words(), "missing": missing,
                    })
                );
            }
            rows.add_row(match &found {
                Ok(found) => carried(sender, sink, found),
                Err(why) => {
                    let [name, sink] = [sender.name(), short(sink)].map(str::to_string);
                    vec![name, sink, "–".into(), String::new(), why.clone()]
                }
            });
        }
        let title = format!(
            "Sessions per core: {}, p99.9 late by at most a third of the gap, none refused",
            Work { streams: 1, ..start }.words().trim_start_matches("1 stream of ")
        );
        self.show(&title, &rows);
    }

    /// The search with one sender. For one that does not know its lateness the receiver's kernel is
    /// asked, and the receiver has the other core.
    fn knee(&self, sender: Sender, start: Work) -> (Sink, Result<Knee, String>) {
        let probe = Work { streams: 2, packets: 2, gap_us: 1000, ..start };
        let knows = self.trial(sender, probe, self.around()).run(self.stop);
        let around = match knows {
            Ok(reading) if reading.late.is_none() => self.heard(),
            Ok(_) => self.around(),
            Err(why) => return (self.sink, Err(why)),
        };
        let halvings = if self.quick { 0 } else { 2 };
        let trial = self.trial(sender, start, around);
        (around.sink, knee(&trial, 64_000, halvings, self.stop))
    }

    fn overload(&self) {
        let work = self.work(self.time());
        let company = Company::published();
        let mut head = LATE.to_vec();
        head.insert(1, "rank");
        head.push("softirq");
        let mut rows = table(&head);
        let mut arms: Vec<(Sender, Rank)> =
            self.senders.iter().map(|&sender| (sender, Rank::Usual)).collect();
        for &sender in &self.senders {
            if self.args.ranks || RANKED.contains(&sender) {
                arms.extend(RANKS.map(|rank| (sender, rank)));
            }
        }
        for (sender, rank) in arms.into_iter().take_while(|_| !self.stop.load(Ordering::Relaxed)) {
            let around = Around { rank, company, ..self.heard() };
            let found = self.read("overload", sender, work, around);
            let (name, last) = (vec![sender.to_string(), rank.words()], vec![softirq(&found)]);
            rows.add_row([name, late(&found), last].concat());
        }
        let title = format!("Overload, ms late: {}, {}", work.words(), company.words());
        self.show(&title, &rows);
    }

    /// Twice the work that a sender can do, of three classes: which packets are late.
    fn classes(&self) {
        let time = self.time().min(Duration::from_secs(2));
        let mut rows = table(&[
            "sender",
            "classes",
            "audio p50",
            "p99.9",
            "video p50",
            "p99.9",
            "dropped",
            "bulk p50",
            "p99.9",
            "sent",
        ]);
        let is_wanted = |it: &&Sender| match self.args.only.as_slice() {
            [] => MIXED.contains(it),
            // The kernel holds the packets of the others, and empties its queue in time.
            _ => !PACED.iter().any(|part| it.name().contains(part)),
        };
        for &sender in self.running().filter(is_wanted) {
            let fast = Work { packets: FAST / 8, payload: 160, ..Work::default() };
            let most = self.read("overload, fast", sender, fast, self.around());
            for mix in [ClassMix::Off, ClassMix::On, ClassMix::Limits] {
                let found = most.clone().and_then(|most| {
                    let work = Work::overload(time, most.rate(), mix);
                    self.read("overload, classes", sender, work, self.around())
                });
                let name = [sender.to_string(), mix.classes().unwrap_or_default().to_owned()];
                rows.add_row([name.to_vec(), classed(&found)].concat());
            }
        }
        let sink = self.sink.words();
        self.show(
            &format!(
                "Overload by its own streams, ms late: audio, video and bulk, twice the packets \
                 that the sender can send ({sink})"
            ),
            &rows,
        );
    }

    /// The senders, until the run is stopped.
    fn running(&self) -> impl Iterator<Item = &Sender> {
        self.senders.iter().take_while(|_| !self.stop.load(Ordering::Relaxed))
    }
}

const LATE: [&str; 8] = ["sender", "p50", "p90", "p99", "p99.9", "max", "drift", "dry"];

/// The columns of lateness, or the reason why they are missing.
fn late(found: &Result<Reading, String>) -> Vec<String> {
    let ms = |ns: i64| format!("{:.3}", ns as f64 / 1e6);
    match found {
        Ok(Reading { late: Some(it), .. }) => vec![
            ms(it.p50_ns),
            ms(it.p90_ns),
            ms(it.p99_ns),
            ms(it.p999_ns),
            ms(it.max_ns),
            it.drift_ns.map_or("–".into(), |it| format!("{:+.1}", it as f64 / 1e6)),
            format!("{:.1} %", it.dry * 100.0),
        ],
        Ok(_) => vec!["nothing was heard".into()],
        Err(why) => vec![why.clone()],
    }
}

/// The columns of classes, or the reason why they are missing.
fn classed(found: &Result<Reading, String>) -> Vec<String> {
    let [audio, video, bulk] = match found {
        Ok(it) => match it.classes.as_slice() {
            [audio, video, bulk] => [audio, video, bulk],
            _ => return vec!["nothing was sent".into()],
        },
        Err(why) => return vec![why.clone()],
    };
    let count = |count: u64| stats::words::count(u32::try_from(count).unwrap_or(u32::MAX));
    let late = |it: &lab::pace::ClassReading| match it.late {
        Some(late) => [late.p50_ns, late.p999_ns].map(|ns| format!("{:.1}", ns as f64 / 1e6)),
        None => ["–", "–"].map(str::to_owned),
    };
    let mut cells = [late(audio), late(video)].concat();
    cells.push(count(audio.dropped + video.dropped));
    cells.extend(late(bulk));
    cells.push(count(bulk.late.map_or(0, |it| it.packets)));
    cells
}

/// Softirqs per packet, and the fraction of the core that the tick saw in them.
fn softirq(found: &Result<Reading, String>) -> String {
    let Ok(it) = found else { return "–".to_string() };
    let (Some(count), Some(share)) = (it.softirqs, it.irq_share()) else {
        return "–".to_string();
    };
    format!("{:.2} · {:.1} %", count as f64 / it.sent.max(1) as f64, share * 100.0)
}

/// A sink's name in a column.
fn short(sink: Sink) -> &'static str {
    sink.words().split([' ', ',']).next().unwrap_or_default()
}

fn carried(sender: Sender, sink: Sink, found: &Knee) -> Vec<String> {
    let steps = found.steps.iter().map(|step| {
        let late = step.late_ms.map_or("?".to_string(), |late| format!("{late:.1}"));
        format!("{}: {late} {:.0} %", step.streams, step.share * 100.0)
    });
    vec![
        sender.to_string(),
        short(sink).to_string(),
        found.streams.to_string(),
        found.missed.map_or("–".into(), |it| it.to_string()),
        steps.collect::<Vec<_>>().join(" · "),
    ]
}

fn table(head: &[&str]) -> Table {
    let mut table = ruled();
    table.set_header(head);
    table
}
