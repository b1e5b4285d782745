//! A run's histograms over time, written to a file while it goes on.
//!
//! Every thread hands a copy of its histograms over at the end of each [`Settings::interval`]; a
//! thread of the scribe's packs and writes them, because packing takes longer than an arrival can
//! wait. Where several threads measure, one line of the log is the sum of all of them. The counts
//! of all lines together are those of the report: what came in the drain is there, what came
//! before the window is not.
//!
//! [`Settings::interval`]: crate::drive::Settings::interval

use crate::drive::Stretch;
use crate::run::{Onlooker, Plan};
use meter::Histogram;
use meter::hlog::{self, Interval};
use seam::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Someone who writes a `.hlog`.
#[derive(Debug)]
pub struct Scribe {
    pages: Sender<Page>,
    thread: JoinHandle<io::Result<()>>,
}

/// What a thread measured in a stretch of time.
#[derive(Debug)]
struct Page {
    part: usize,
    start: Instant,
    end: Instant,
    times: Times,
}

/// What readers show by default, then what stands behind it under a tag.
#[derive(Debug)]
struct Times {
    first: Histogram,
    others: Vec<(&'static str, Histogram)>,
}

impl Scribe {
    /// Begins a log of a run as planned.
    ///
    /// # Errors
    /// If the kernel refuses a thread.
    pub fn begin(file: File, plan: &Plan) -> io::Result<Self> {
        let (pages, inbox) = mpsc::channel();
        let (parts, each) = (plan.threads, plan.interval());
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
        let thread = std::thread::Builder::new().name("scribe".to_owned()).spawn(write)?;
        Ok(Self { pages, thread })
    }

    /// Who has to look on.
    pub fn onlooker(&self, plan: &Plan) -> Onlooker {
        let (pages, scheduled) = (self.pages.clone(), plan.model.is_scheduled());
        Arc::new(move |part, stretch: Stretch<'_>| {
            if stretch.measured {
                let (start, end) = (stretch.start, stretch.end);
                let times = Times::of(&stretch, scheduled);
                // A scribe that could not write is asked about it in the end.
                let _ = pages.send(Page { part, start, end, times });
            }
        })
    }

    /// Ends the log, when nobody looks on any more.
    ///
    /// # Errors
    /// What the scribe met when it wrote.
    pub fn end(self) -> io::Result<()> {
        drop(self.pages);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// What a file of a run says about it.
pub fn comments(plan: &Plan) -> Vec<String> {
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
    fn of(stretch: &Stretch<'_>, scheduled: bool) -> Self {
        let tally = stretch.tally;
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

/// The lines of a log, as the threads' pages come in.
struct Lines {
    inbox: Receiver<Page>,
    each: Duration,
    start: Option<Instant>,
    /// The latest place of every thread.
    latest: Vec<u64>,
    /// By place; complete when every thread is beyond it.
    open: BTreeMap<u64, Page>,
    ready: VecDeque<Interval>,
}

impl Lines {
    fn new(inbox: Receiver<Page>, parts: usize, each: Duration) -> Self {
        let (open, ready) = (BTreeMap::new(), VecDeque::new());
        Self { inbox, each, start: None, latest: vec![0; parts], open, ready }
    }

    /// Waits for the first page: when did the window begin, by the wall clock?
    fn wait(&mut self) -> SystemTime {
        let now = SystemTime::now();
        let Ok(page) = self.inbox.recv() else { return now };
        let start = page.start;
        self.start = Some(start);
        self.add(page);
        SystemTime::now() - crate::run::now().since(start)
    }

    fn add(&mut self, page: Page) {
        let start = self.start.unwrap_or(page.start);
        let middle = Instant::from_ns(page.start.ns().midpoint(page.end.ns()));
        let place = (middle.since(start).as_nanos() / self.each.as_nanos().max(1)) as u64;
        let latest = &mut self.latest[page.part];
        *latest = (*latest).max(place);
        match self.open.get_mut(&place) {
            Some(line) => {
                line.start = line.start.min(page.start);
                line.end = line.end.max(page.end);
                line.times.merge(&page.times);
            }
            None => {
                self.open.insert(place, page);
            }
        }
        let complete = self.latest.iter().copied().min().unwrap_or(0);
        let rest = self.open.split_off(&complete);
        let done = std::mem::replace(&mut self.open, rest);
        done.into_values().for_each(|page| self.close(page));
    }

    fn close(&mut self, page: Page) {
        let start = page.start.since(self.start.unwrap_or(page.start));
        let length = page.end.since(page.start);
        let line = |tag, times| Interval { start, length, tag, times };
        self.ready.push_back(line(None, page.times.first));
        let others = page.times.others.into_iter();
        self.ready.extend(others.map(|(tag, times)| line(Some(tag), times)));
    }
}

impl Iterator for Lines {
    type Item = Interval;

    fn next(&mut self) -> Option<Interval> {
        while self.ready.is_empty() {
            match self.inbox.recv() {
                Ok(page) => self.add(page),
                Err(_) => {
                    let (_, page) = self.open.pop_first()?;
                    self.close(page);
                }
            }
        }
        self.ready.pop_front()
    }
}
