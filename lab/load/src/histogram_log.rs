//! A run's histograms over time, written to a file during the run.
//!
//! At the end of each [`Settings::interval`] every thread hands over a copy of its histograms. A
//! separate thread packs and writes them, because packing takes longer than an arrival can wait.
//! With several measuring threads one line of the log is the sum of all of them. The counts of all
//! lines add up to those of the report: the drain is included, the warm-up is not.
//!
//! [`Settings::interval`]: crate::drive::Settings::interval

use crate::Instant;
use crate::drive::IntervalReport;
use crate::run::{Plan, ThreadObserver};
use meter::Histogram;
use meter::hlog::{self, Interval};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// A writer of a `.hlog` file.
#[derive(Debug)]
pub struct HistogramLog {
    records: Sender<Record>,
    thread: JoinHandle<io::Result<()>>,
}

/// A thread's measurements during an interval.
#[derive(Debug)]
struct Record {
    part: usize,
    start: Instant,
    end: Instant,
    times: Times,
}

/// The series that viewers show by default, then the tagged series.
#[derive(Debug)]
struct Times {
    first: Histogram,
    others: Vec<(&'static str, Histogram)>,
}

impl HistogramLog {
    /// Starts the log of a planned run.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub fn begin(file: File, plan: &Plan) -> io::Result<Self> {
        let (records, inbox) = mpsc::channel();
        let (parts, each) = (plan.threads, plan.settings.interval);
        let mut comments = comments(plan);
        let more = match plan.model.is_scheduled() {
            true => "in ns; Tag=service: from sent to done; Tag=lateness: from due to sent",
            false => "in ns",
        };
        comments.push(more.to_owned());
        let write = move || {
            let mut lines = Lines::new(inbox, parts, each);
            let start = lines.wait();
            hlog::write(io::BufWriter::new(file), start, &comments, lines)
        };
        let thread = std::thread::Builder::new().name("histograms".to_owned()).spawn(write)?;
        Ok(Self { records, thread })
    }

    /// The observer to pass to the run.
    pub fn observer(&self, plan: &Plan) -> ThreadObserver {
        let (records, scheduled) = (self.records.clone(), plan.model.is_scheduled());
        Arc::new(move |part, interval: IntervalReport<'_>| {
            if interval.measured {
                let (start, end) = (interval.start, interval.end);
                let times = Times::of(&interval, scheduled);
                // Write errors are returned by `end`.
                let _ = records.send(Record { part, start, end, times });
            }
        })
    }

    /// Ends the log after the last observer call.
    ///
    /// # Errors
    /// The first write error.
    pub fn end(self) -> io::Result<()> {
        drop(self.records);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The comments about a run at the head of a file.
fn comments(plan: &Plan) -> Vec<String> {
    let what = match plan.model.is_scheduled() {
        true => "response times, from due to done",
        false => "service times, from sent to done",
    };
    let rate = plan.model.rate().map(|rate| format!(" of {rate}/s")).unwrap_or_default();
    let run = format!(
        "{}, {}{rate}, {} connections, depth {}, {} threads, seed {}",
        plan.target,
        plan.model.name(),
        plan.settings.connections,
        plan.model.depth(),
        plan.threads,
        plan.seed
    );
    vec![run, what.to_owned()]
}

impl Times {
    fn of(interval: &IntervalReport<'_>, scheduled: bool) -> Self {
        let tally = interval.tally;
        match scheduled {
            false => Self { first: tally.service.clone(), others: Vec::new() },
            true => Self {
                first: tally.response.clone(),
                others: vec![
                    ("service", tally.service.clone()),
                    ("lateness", tally.lateness.clone()),
                ],
            },
        }
    }

    fn merge(&mut self, other: &Self) {
        self.first.merge(&other.first);
        for ((_, mine), (_, theirs)) in self.others.iter_mut().zip(&other.others) {
            mine.merge(theirs);
        }
    }
}

/// The lines of a log, assembled from the threads' records.
struct Lines {
    inbox: Receiver<Record>,
    each: Duration,
    start: Option<Instant>,
    /// The latest slot of every thread.
    latest: Vec<u64>,
    /// The records by slot; a slot is complete once every thread is past it.
    open: BTreeMap<u64, Record>,
    ready: VecDeque<Interval>,
}

impl Lines {
    fn new(inbox: Receiver<Record>, parts: usize, each: Duration) -> Self {
        let (open, ready) = (BTreeMap::new(), VecDeque::new());
        Self { inbox, each, start: None, latest: vec![0; parts], open, ready }
    }

    /// Waits for the first record, to learn when the window began by the wall clock.
    fn wait(&mut self) -> SystemTime {
        let now = SystemTime::now();
        let Ok(record) = self.inbox.recv() else { return now };
        let start = record.start;
        self.start = Some(start);
        self.add(record);
        SystemTime::now() - crate::run::now().since(start)
    }

    fn add(&mut self, record: Record) {
        let start = self.start.unwrap_or(record.start);
        let middle = Instant::from_ns(record.start.ns().midpoint(record.end.ns()));
        let place = (middle.since(start).as_nanos() / self.each.as_nanos().max(1)) as u64;
        let latest = &mut self.latest[record.part];
        *latest = (*latest).max(place);
        match self.open.get_mut(&place) {
            Some(line) => {
                line.start = line.start.min(record.start);
                line.end = line.end.max(record.end);
                line.times.merge(&record.times);
            }
            None => {
                self.open.insert(place, record);
            }
        }
        let complete = self.latest.iter().copied().min().unwrap_or(0);
        let rest = self.open.split_off(&complete);
        let done = std::mem::replace(&mut self.open, rest);
        done.into_values().for_each(|record| self.close(record));
    }

    fn close(&mut self, record: Record) {
        let start = record.start.since(self.start.unwrap_or(record.start));
        let length = record.end.since(record.start);
        let line = |tag, times| Interval { start, length, tag, times };
        self.ready.push_back(line(None, record.times.first));
        let others = record.times.others.into_iter();
        self.ready.extend(others.map(|(tag, times)| line(Some(tag), times)));
    }
}

impl Iterator for Lines {
    type Item = Interval;

    fn next(&mut self) -> Option<Interval> {
        while self.ready.is_empty() {
            match self.inbox.recv() {
                Ok(record) => self.add(record),
                Err(_) => {
                    let (_, record) = self.open.pop_first()?;
                    self.close(record);
                }
            }
        }
        self.ready.pop_front()
    }
}
