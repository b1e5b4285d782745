//! `roundhouse senders lab`: the four questions, each with its table.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use engines::{Sender, probe};
use lab::pace::{Around, Company, Knee, Rank, Reading, Sink, Trial, Work, knee};
use serde_json::json;

/// The flags of `roundhouse senders lab`.
#[derive(clap::Args)]
pub struct Args {
    /// Senders to compare [default: all that work here]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<Sender>,
    /// Questions to ask [default: all]
    #[arg(long, value_delimiter = ',', value_name = "QUESTION,…")]
    ask: Vec<Question>,
    /// Short runs: a look in place of a claim
    #[arg(long)]
    quick: bool,
    /// Print one line of JSON for each reading instead of tables
    #[arg(long)]
    json: bool,
}

/// What can be asked of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Question {
    /// How late do packets leave?
    Pacing,
    /// What does one cost?
    Cost,
    /// How many sessions does a core carry?
    Sessions,
    /// And when others want the core?
    Overload,
}

/// Who takes part in which rank when the core is wanted by others: all as they are, and these also
/// in front.
const RANKED: [Sender; 3] = [Sender::Plain, Sender::Sendmmsg, Sender::UringChain];
const RANKS: [Rank; 2] = [Rank::Nice(-10), Rank::RealTime(50)];
/// Parts of the names of senders that the kernel paces by bytes.
const PACED: [&str; 3] = ["tbf", "htb", "bpf"];
/// Streams of the cost of waiting.
const MANY: u32 = 1000;
/// Packets as fast as they can be sent.
const FAST: u32 = 400_000;

struct Lab<'a> {
    exe: &'a Path,
    stop: &'a AtomicBool,
    senders: Vec<Sender>,
    quick: bool,
    json: bool,
    sink: Sink,
}

/// Asks the questions and prints the answers.
///
/// # Errors
/// If no sender works here.
pub fn run(args: &Args, exe: &Path, stop: &Arc<AtomicBool>) -> Result<()> {
    let chosen: Vec<Sender> = match args.only.as_slice() {
        [] => Sender::all().collect(),
        only => only.to_vec(),
    };
    let mut senders = Vec::new();
    for sender in chosen {
        match probe(sender) {
            Ok(_) => senders.push(sender),
            Err(why) => eprintln!("left out: {sender} ({why})"),
        }
    }
    if senders.is_empty() {
        bail!("none of the senders works here; `roundhouse senders` says why");
    }
    let mut lab = Lab { exe, stop, senders, quick: args.quick, json: args.json, sink: Sink::Freed };
    lab.choose_sink();
    let all = Question::value_variants();
    let asked = all.iter().filter(|it| args.ask.is_empty() || args.ask.contains(it));
    for question in asked.take_while(|_| !stop.load(Ordering::Relaxed)) {
        match question {
            Question::Pacing => lab.pacing(),
            Question::Cost => lab.cost(),
            Question::Sessions => lab.sessions(),
            Question::Overload => lab.overload(),
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
            eprintln!("the loopback device in place of one that frees packets: {why}");
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

    fn trial(&self, sender: Sender, work: Work, around: Around) -> Trial<'_> {
        Trial { exe: self.exe, sender: sender.name(), peer: None, work, around }
    }

    /// Runs one, and prints it where lines are wanted.
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
        let work = Work::audio(self.time());
        let mut rows = table(&LATE);
        for &sender in self.running() {
            let found = self.read("pacing", sender, work, self.heard());
            rows.add_row([vec![sender.to_string()], late(&found)].concat());
        }
        let sink = Sink::Heard.words();
        self.show(&format!("Pacing, ms: {} ({sink})", work.words()), &rows);
    }

    fn cost(&self) {
        let paced = Work { streams: MANY, ..Work::audio(self.time()) };
        let share = if self.quick { 4 } else { 1 };
        let small = Work { streams: 1, packets: FAST / share, gap_us: 0, ..paced };
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
            "switches",
            "kernel kB",
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
                // What is paced by bytes is never as fast as it can.
                row.push(match PACED.iter().any(|part| sender.name().contains(part)) {
                    true => "paced".to_string(),
                    false => us(&self.read("cost, fast", sender, work, around)),
                });
            }
            if let Ok(it) = &found {
                let each = |count: u64| format!("{:.3}", count as f64 / it.sent.max(1) as f64);
                row.extend([each(it.calls), each(it.switches)]);
                row.push(format!("{:.0}", it.kernel_bytes as f64 / 1024.0));
            }
            rows.add_row(row);
        }
        let sink = self.sink.words();
        let title = format!(
            "CPU, us a packet ({sink}); paced: {}; calls and switches a packet\n\
             whole core: by cycle soak, with what the kernel does by itself",
            paced.words()
        );
        self.show(&title, &rows);
    }

    fn sessions(&self) {
        let time = if self.quick { Duration::from_millis(600) } else { Duration::from_secs(2) };
        let start = Work { streams: 500, ..Work::audio(time) };
        let mut rows =
            table(&["sender", "sessions", "missed at", "steps: sessions, late ms, core"]);
        for &sender in self.running() {
            let trial = self.trial(sender, start, self.around());
            let halvings = if self.quick { 0 } else { 2 };
            let found = knee(&trial, 64_000, halvings, self.stop);
            if self.json {
                let (knee, missing) = (found.as_ref().ok(), found.as_ref().err());
                let name = sender.name();
                let question = "sessions";
                println!(
                    "{}",
                    json!({
                        "question": question, "sender": name, "work": start, "knee": knee,
                        "sink": self.sink.words(), "missing": missing,
                    })
                );
            }
            rows.add_row(match &found {
                Ok(found) => carried(sender, found),
                Err(why) => vec![sender.to_string(), "–".into(), String::new(), why.clone()],
            });
        }
        let title = format!(
            "Sessions per core: 32 B each 30 ms, p99.9 late by at most 10 ms, none refused ({})",
            self.sink.words()
        );
        self.show(&title, &rows);
    }

    fn overload(&self) {
        let work = Work::audio(self.time());
        let company = Company::PUBLISHED;
        let mut rows =
            table(&["sender", "rank", "p50", "p90", "p99", "p99.9", "max", "drift", "dry"]);
        let mut arms: Vec<(Sender, Rank)> =
            self.senders.iter().map(|&sender| (sender, Rank::Usual)).collect();
        for sender in RANKED.into_iter().filter(|it| self.senders.contains(it)) {
            arms.extend(RANKS.map(|rank| (sender, rank)));
        }
        for (sender, rank) in arms.into_iter().take_while(|_| !self.stop.load(Ordering::Relaxed)) {
            let around = Around { rank, company, ..self.heard() };
            let found = self.read("overload", sender, work, around);
            rows.add_row([vec![sender.to_string(), rank.words()], late(&found)].concat());
        }
        let title = format!("Overload, ms late: {}, {}", work.words(), company.words());
        self.show(&title, &rows);
    }

    /// The senders, until somebody wants to stop.
    fn running(&self) -> impl Iterator<Item = &Sender> {
        self.senders.iter().take_while(|_| !self.stop.load(Ordering::Relaxed))
    }
}

const LATE: [&str; 8] = ["sender", "p50", "p90", "p99", "p99.9", "max", "drift", "dry"];

/// The columns of lateness; the reason where there is none.
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

fn carried(sender: Sender, found: &Knee) -> Vec<String> {
    let steps = found.steps.iter().map(|step| {
        let late = step.late_ms.map_or("?".to_string(), |late| format!("{late:.1}"));
        format!("{}: {late} {:.0} %", step.streams, step.share * 100.0)
    });
    vec![
        sender.to_string(),
        found.streams.to_string(),
        found.missed.map_or("–".into(), |it| it.to_string()),
        steps.collect::<Vec<_>>().join(" · "),
    ]
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(line));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head);
    table
}
