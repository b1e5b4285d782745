//! Every request in a file, on demand, in the columns of k6's CSV output.
//!
//! A generator never waits for the disk. It puts a row into a bounded queue, and one thread writes
//! the rows of all generators. That thread looks into the queue at intervals, because a blocked
//! reader would cost each row a system call. Rows that find no room, or come after an error of the
//! disk, are counted, and the report has a doubt with their number.
//!
//! A row stands for a request that has ended: answered, lost with its connection, or unanswered at
//! the end. An arrival that was dropped was never sent and has no row.

use crate::faults::FaultKind;
use crate::parse::{Target, Usage};
use crate::run::{Workload, now};
use crate::script::Note;
use crate::snapshot::Phase;
use crate::tally::{Span, nanos};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first line: the columns of k6 1.x with its default tags.
const HEADER: &str = "metric_name,timestamp,metric_value,check,error,error_code,expected_response,\
    group,method,name,proto,scenario,service,status,subproto,tls_version,url,extra_tags,metadata";
/// The most rows that wait: 48 bytes each, and 13 million a second at [`PAUSE`].
const QUEUE: usize = 1 << 16;
/// The pause of the writer when the queue is empty.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
struct Row {
    span: Span,
    phase: Phase,
    /// `None`: it has no reply, and is one of several kinds.
    kind: Option<u16>,
    /// 0 without a reply.
    status: u16,
    fault: Option<FaultKind>,
    is_right: bool,
}

/// One generator's way to the file.
#[derive(Clone, Debug)]
pub(crate) struct RowQueue {
    queue: SyncSender<Row>,
    missing: Arc<AtomicU64>,
    phase: Phase,
}

#[derive(Debug)]
pub(crate) struct RowFile {
    path: PathBuf,
    queue: RowQueue,
    writer: JoinHandle<io::Result<()>>,
}

/// The constants of all rows, and the kinds of requests.
struct Names {
    /// Method, name and URL of each kind.
    kinds: Vec<(String, String, String)>,
    /// The URL of a request of an unknown kind, and of the steps of a flow.
    origin: String,
    proto: &'static str,
    /// From the clock of a run to the time since 1970 (ns).
    offset: u64,
}

impl RowQueue {
    /// The rows that follow belong to this phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub(crate) fn replied(&self, note: Note, span: Span, fault: Option<FaultKind>) {
        let (kind, is_right) = (Some(note.kind), !note.wrong);
        self.put(Row { span, phase: self.phase, kind, status: note.status, fault, is_right });
    }

    /// `count` requests have no reply.
    pub(crate) fn lost(&self, count: u32, span: Span, fault: FaultKind) {
        let (kind, fault) = (None, Some(fault));
        let row = Row { span, phase: self.phase, kind, status: 0, fault, is_right: false };
        (0..count).for_each(|_| self.put(row));
    }

    fn put(&self, row: Row) {
        if self.queue.try_send(row).is_err() {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl RowFile {
    /// Makes the file, for the requests of `workload` to `target`.
    ///
    /// # Errors
    /// The requests are not those of HTTP, the file cannot be written, or no thread can be started.
    pub(crate) fn create(path: &Path, target: &Target, workload: &Workload) -> Result<Self, Usage> {
        let names = Names::of(target, workload).ok_or_else(|| {
            Usage(format!("expected --requests-csv with http:// or https://, found {target}"))
        })?;
        let bad = |error| Usage(format!("cannot write {}: {error}", path.display()));
        let mut file = File::create(path).map_err(bad)?;
        writeln!(file, "{HEADER}").map_err(bad)?;
        let (queue, rows) = sync_channel(QUEUE);
        let writer = thread::Builder::new().name("rows".to_owned());
        let writer = writer.spawn(move || write(&rows, &file, &names)).map_err(bad)?;
        let queue = RowQueue { queue, missing: Arc::default(), phase: Phase::Warmup };
        Ok(Self { path: path.to_owned(), queue, writer })
    }

    /// The way of one more generator.
    pub(crate) fn queue(&self) -> RowQueue {
        self.queue.clone()
    }

    /// Waits for the last row, once no generator has a queue; returns doubts about the file.
    pub(crate) fn finish(self) -> Vec<String> {
        let Self { path, queue: RowQueue { queue, missing, .. }, writer } = self;
        drop(queue);
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let failed = written.err().map(|error| format!("cannot write {}: {error}", path.display()));
        let missing = missing.load(Ordering::Relaxed);
        let lacking = (missing > 0).then(|| {
            format!(
                "{} lacks {missing} requests, because the disk was too slow; use a faster one, or \
                 a lower rate",
                path.display()
            )
        });
        failed.into_iter().chain(lacking).collect()
    }
}

/// Writes rows until every queue is gone.
fn write(rows: &Receiver<Row>, file: &File, names: &Names) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    loop {
        match rows.try_recv() {
            Ok(row) => names.write(&row, &mut out)?,
            Err(TryRecvError::Empty) => {
                out.flush()?;
                thread::sleep(PAUSE);
            }
            Err(TryRecvError::Disconnected) => return out.flush(),
        }
    }
}

impl Names {
    /// `None`: the workload does not speak HTTP.
    fn of(target: &Target, workload: &Workload) -> Option<Self> {
        let scheme = if target.tls.is_some() { "https" } else { "http" };
        let origin = field(&format!("{scheme}://{}", target.authority));
        let kinds = match workload {
            Workload::Http(options) => {
                let kinds = options.methods().zip(&options.requests).map(|(method, it)| {
                    let url = field(&format!("{origin}{}", it.path));
                    (method.to_owned(), url.clone(), url)
                });
                kinds.collect()
            }
            Workload::Flow(flows, _) => {
                let kinds = flows.names().map(|it| (it.0, field(it.1), origin.clone()));
                kinds.collect()
            }
            _ => return None,
        };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let proto = if target.http2 { "HTTP/2.0" } else { "HTTP/1.1" };
        let offset = (wall.as_nanos() as u64).saturating_sub(now().ns());
        Some(Self { kinds, origin, proto, offset })
    }

    fn write(&self, row: &Row, out: &mut impl Write) -> io::Result<()> {
        let at = row.kind.map(usize::from).or((self.kinds.len() == 1).then_some(0));
        let (method, name, url) = match at.and_then(|at| self.kinds.get(at)) {
            Some((method, name, url)) => (&method[..], &name[..], &url[..]),
            None => ("", &self.origin[..], &self.origin[..]),
        };
        let Span { due, sent, done } = row.span;
        let ms = |from| nanos(from, done) as f64 / 1e6;
        // A status says enough by itself.
        let (error, code) = match (row.status, row.fault) {
            (status @ 400..600, _) => (String::new(), (1000 + status).to_string()),
            (_, Some(fault)) => (fault.to_string(), code(fault).to_string()),
            (_, None) => Default::default(),
        };
        let seconds = (self.offset + done.ns()) / 1_000_000_000;
        let phase = row.phase.name();
        write!(out, "http_req_duration,{seconds},{:.6},,{error},{code},", ms(sent))?;
        write!(out, "{},,{method},{name},{},{phase},,", row.is_right, self.proto)?;
        writeln!(out, "{},,,{url},response_ms={:.6},", row.status, ms(due))
    }
}

/// k6's number for the outcome of a request.
fn code(fault: FaultKind) -> u16 {
    use FaultKind::{Certificate, GoAway, NoDescriptors, NoPorts, Protocol, Refused, Reset};
    use FaultKind::{Socket, StreamReset, Timeout, Tls};
    match fault {
        Timeout => 1050,
        Socket => 1200,
        NoPorts | NoDescriptors => 1210,
        Refused => 1212,
        Reset => 1220,
        Tls => 1300,
        Certificate => 1310,
        GoAway => 1610,
        StreamReset => 1630,
        Protocol => 1650,
        _ => 1000,
    }
}

/// A field of CSV (RFC 4180).
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;
    use crate::script::HttpOptions;

    #[test]
    fn rows_have_the_columns_of_their_header() {
        let target: Target = "http://127.0.0.1:1/a".parse().expect("a target");
        let paths = vec![("/a".to_owned(), 1), ("/b?\",".to_owned(), 1)];
        let workload = Workload::Http(HttpOptions::get("", paths, 1));
        let names = Names::of(&target, &workload).expect("HTTP");
        let names = Names { offset: 5_000_000_000, ..names };
        let at = Instant::from_ns;
        let span = Span { due: at(0), sent: at(500_000), done: at(2_000_000) };
        let row = |kind, status, fault: Option<FaultKind>| {
            let (phase, is_right) = (Phase::Window, fault.is_none());
            let mut out = Vec::new();
            let row = Row { span, phase, kind, status, fault, is_right };
            names.write(&row, &mut out).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let right = row(Some(0), 200, None);
        assert_eq!(
            right,
            "http_req_duration,5,1.500000,,,,true,,GET,http://127.0.0.1:1/a,HTTP/1.1,window,,200,,,\
             http://127.0.0.1:1/a,response_ms=2.000000,\n"
        );
        assert_eq!(right.split(',').count(), HEADER.split(',').count());
        let wrong = row(Some(1), 500, Some(FaultKind::WrongReply));
        assert!(wrong.contains(",,,1500,false,,GET,\"http://127.0.0.1:1/b?\"\",\","), "{wrong}");
        let lost = row(None, 0, Some(FaultKind::Reset));
        assert!(lost.contains(",connections reset,1220,false,,,http://127.0.0.1:1,"), "{lost}");
    }

    #[test]
    fn a_full_queue_counts_what_it_has_no_room_for() {
        let (queue, rows) = sync_channel(2);
        let queue = RowQueue { queue, missing: Arc::default(), phase: Phase::Window };
        let span = Span { due: Instant::ZERO, sent: Instant::ZERO, done: Instant::ZERO };
        queue.lost(5, span, FaultKind::Reset);
        assert_eq!((queue.missing.load(Ordering::Relaxed), rows.try_iter().count()), (3, 2));
    }
}
