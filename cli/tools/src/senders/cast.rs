//! `roundhouse senders cast NAME`: one sender with one work in given surroundings, and all its
//! figures.
//!
//! The trial runs in a child process (`lab::pace`), so that its CPU time, context switches and
//! memory are those of the sender alone; this file maps flags to the trial and prints its reading.
//! Every cost is given per packet, because senders of different rates can then be compared.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::RankArgs;
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use lab::machine::Placement;
use lab::pace::{Around, ClassMix, Company, Lateness, Rank, Reading, Sink, Trial, Work};
use pacing::Sender;
use stats::words::micros;

/// The flags of `roundhouse senders cast`.
#[derive(clap::Args)]
pub struct Args {
    /// The sender; `roundhouse senders` lists them
    sender: Sender,
    /// Packets of each stream
    #[arg(long, default_value_t = 100, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    packets: u32,
    #[command(flatten)]
    factors: Factors,
    #[command(flatten)]
    around: Surroundings,
    /// Print the reading as JSON
    #[arg(long)]
    json: bool,
}

/// The work of a sender.
#[derive(clap::Args)]
struct Factors {
    /// Streams at once
    #[arg(long, default_value_t = 10, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    streams: u32,
    /// Milliseconds from one packet of a stream to the next; 0: as fast as possible
    #[arg(long, default_value_t = 30.0, value_name = "MS", value_parser = gap)]
    gap: f64,
    /// Bytes of payload after the header of 12
    #[arg(long, default_value_t = 32, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=65_000))]
    payload: u32,
    /// Take payloads from memory instead of a file
    #[arg(long)]
    memory: bool,
    /// Streams of audio, video and bulk in turn, with 1, 8 and 64 packets where another has one:
    /// `off` sends by time alone, `on` audio first, `limits` also drops audio later than 60 ms and
    /// video later than 200 ms
    #[arg(long, value_enum)]
    mix: Option<Mixture>,
}

/// How classes are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mixture {
    Off,
    On,
    Limits,
}

impl Mixture {
    fn mix(self) -> ClassMix {
        match self {
            Mixture::Off => ClassMix::Off,
            Mixture::On => ClassMix::On,
            Mixture::Limits => ClassMix::Limits,
        }
    }
}

impl Factors {
    /// This many packets of each stream.
    fn work(&self, packets: u32) -> Work {
        Work {
            streams: self.streams,
            packets,
            gap_us: (self.gap * 1e3) as u64,
            payload: self.payload,
            file: !self.memory,
            mix: self.mix.map_or(ClassMix::None, Mixture::mix),
        }
    }
}

/// The surroundings of the sender.
#[derive(clap::Args)]
struct Surroundings {
    /// Where packets go: `heard` by a receiver on the other core, or `freed` by a device without
    /// one, which needs root
    #[arg(long, default_value = "heard", value_enum)]
    sink: Where,
    #[command(flatten)]
    rank: RankArgs,
    /// Spinning processes on the sender's core
    #[arg(long, default_value_t = 0, value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=500))]
    spinners: u32,
    /// Loops on the sender's core that start one process after another
    #[arg(long, default_value_t = 0, value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=50))]
    forks: u32,
    /// Loops on the sender's core that compile a tree of C files; they need `cc`
    #[arg(long, default_value_t = 0, value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=50))]
    compiles: u32,
    /// Measure the whole core by cycle soak: the cost then includes the kernel's own work
    #[arg(long, conflicts_with_all = ["spinners", "forks", "compiles"])]
    soak: bool,
}

/// The sinks' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Where {
    Heard,
    Freed,
}

fn gap(text: &str) -> Result<f64, String> {
    let found: Option<f64> = text.parse().ok();
    let fits = |ms: &f64| (0.0..=10_000.0).contains(ms);
    found.filter(fits).ok_or_else(|| "expected milliseconds from 0 to 10000".to_string())
}

impl Surroundings {
    fn around(&self) -> Around {
        let rank = match self.rank.rank() {
            pacing::Rank::Usual => Rank::Usual,
            pacing::Rank::Nice(value) => Rank::Nice(value),
            pacing::Rank::Fifo(priority) => Rank::RealTime(priority),
        };
        let sink = match self.sink {
            Where::Heard => Sink::Heard,
            Where::Freed => Sink::Freed,
        };
        let company =
            Company { spinners: self.spinners, forks: self.forks, compiles: self.compiles };
        let cores = Placement::choose().map(|it| it.cores(false));
        Around { cores, sink, rank, company, soak: self.soak }
    }
}

/// Runs the trial and prints its figures.
///
/// # Errors
/// Why it could not run.
pub fn run(args: &Args, exe: &Path, stop: &Arc<AtomicBool>) -> Result<()> {
    let work = args.factors.work(args.packets);
    let around = args.around.around();
    let trial = Trial { exe, sender: args.sender.name(), work, around };
    let reading = trial.run(stop).map_err(|why| anyhow!("{}: {why}", args.sender))?;
    match args.json {
        true => println!("{}", serde_json::to_string(&reading)?),
        false => print!("{}", text(&work, &around, &reading)),
    }
    Ok(())
}

/// The figures as text.
fn text(work: &Work, around: &Around, it: &Reading) -> String {
    let each = |count: u64| count as f64 / it.sent.max(1) as f64;
    let mut text = format!(
        "{}, {}, {}, {}; {}\n\n  \
         packets       {} sent, {} refused, {} heard; {:.0} a second\n  \
         CPU           {} a packet, {:.1} % of a core\n",
        it.sender,
        work.words(),
        around.rank.words(),
        around.company.words(),
        it.sink,
        it.sent,
        it.failed,
        it.heard,
        it.rate(),
        micros(it.each_ns()),
        it.share() * 100.0,
    );
    if let Some(soak) = it.soak_ns {
        text += &format!("  whole core    {} a packet by cycle soak\n", micros(soak));
    }
    text += &format!(
        "  a packet      {:.3} sending calls, {:.3} changes of context, {:.2} of its bytes read\n  \
         kernel memory {:+.0} kB at half-time, {:.2} kB a stream\n",
        each(it.calls),
        each(it.switches),
        it.read_copies,
        it.kernel_bytes as f64 / 1024.0,
        it.kernel_bytes as f64 / 1024.0 / f64::from(it.streams.max(1)),
    );
    if let (Some(share), Some(softirqs)) = (it.irq_share(), it.softirqs) {
        text += &format!(
            "  interrupts    {:.1} % of the core by ticks; {:.3} network softirqs a packet\n",
            share * 100.0,
            each(softirqs),
        );
    }
    if let Some(late) = it.late {
        let span = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
        let ms = |ns: i64| if ns < 0 { -1e3 } else { 1e3 } * span(ns).as_secs_f64();
        text += &format!(
            "  late          p50 {:.3} · p90 {:.3} · p99 {:.3} · p99.9 {:.3} · max {:.3} ms\n",
            ms(late.p50_ns),
            ms(late.p90_ns),
            ms(late.p99_ns),
            ms(late.p999_ns),
            ms(late.max_ns),
        );
        if let Some(drift) = late.drift_ns {
            text += &format!("  drift         {:+.2} ms in 30 s", ms(drift));
            text += &it.drifts.map_or(String::new(), |it| {
                format!("; streams {:+.2} to {:+.2}", ms(it.least_ns), ms(it.most_ns))
            });
            text.push('\n');
        }
    }
    text + &classes(it)
}

/// The figures of the classes of a mixture.
fn classes(it: &Reading) -> String {
    let mut text = String::new();
    for it in &it.classes {
        let ms = |of: fn(&Lateness) -> i64| it.late.map_or(f64::NAN, |it| of(&it) as f64 / 1e6);
        text += &format!(
            "  {:<13} {} sent, {} dropped; late p50 {:.3} · p99.9 {:.3} · max {:.3} ms\n",
            it.class,
            it.late.map_or(0, |it| it.packets),
            it.dropped,
            ms(|it| it.p50_ns),
            ms(|it| it.p999_ns),
            ms(|it| it.max_ns),
        );
    }
    text
}
