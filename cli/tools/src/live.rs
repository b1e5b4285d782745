//! A race in a browser while it runs: a page and its document, served by our own library under one
//! of our own engines, on a thread of this process.
//!
//! ```text
//!   lab::live::Live  --snapshot-->  pages::live::Watch  --document-->  /state.json  -->  page
//! ```
//!
//! A race only calls [`open`]; the returned value publishes until it is dropped. It publishes at
//! most four times a second, and only changes, because the machine that serves the page is the
//! measured one. The page asks twice a second for a document that it does not have yet (RFC 9110
//! section 13.1.2). Each edition is the whole document, so a page that reconnects has missed
//! nothing.

mod follow;

pub use follow::{Args, run};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use lab::live::{Live, Snapshot};
use language::eprintln;
use pages::live::Watch;
use roundhouse::{Http, HttpRequest, HttpResponse, Server, ServerHandle, http};

use crate::page;

/// The interval at which the race is read.
const LOOK: Duration = Duration::from_millis(250);

/// The longest time between two requests of a page, also in a hidden tab, whose clock is slow.
const ASKS: Duration = Duration::from_millis(1_200);
/// How long a client may take to send a request, or be idle between two requests.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest document in bytes.
const DOCUMENT_MAX: usize = 1 << 20;

/// The flag of commands that can be watched.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Flag {
    /// Serve a page on which the race can be watched; 0 as port picks one
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:0"
    )]
    pub live: Option<SocketAddr>,
}

/// A race on a page. Dropping it publishes the end and stops the server.
pub struct Shown {
    over: Arc<AtomicBool>,
    report: Arc<Mutex<Option<PathBuf>>>,
    document: Arc<Mutex<Document>>,
    publisher: Option<JoinHandle<()>>,
    server: ServerHandle<()>,
}

/// The latest edition of the document.
struct Document {
    text: Vec<u8>,
    /// Its number; that of the first one differs between two servers at one address.
    edition: u64,
    /// When a page last asked for it.
    asked: Option<Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the page of `live` at `address` and prints the address on stderr.
///
/// # Errors
/// If the address cannot be listened on.
pub fn open(address: SocketAddr, live: &Live) -> Result<Shown> {
    let live = live.clone();
    let shown = show(address, move || (Vec::new(), live.snapshot()))?;
    eprintln!("watch it at http://{}/", shown.listening());
    Ok(shown)
}

impl Shown {
    /// Names the finished report, so that viewers of the page can open it.
    pub fn report(&self, path: PathBuf) {
        *locked(&self.report) = Some(path);
    }

    /// The address of the page.
    pub fn listening(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The publisher ends after its last edition; pages that look on ask for it once more.
        self.over.store(true, Ordering::Release);
        if let Some(publisher) = self.publisher.take() {
            let _ = publisher.join();
        }
        let asked = locked(&self.document).asked;
        if asked.is_some_and(|at| at.elapsed() < ASKS) {
            thread::sleep(ASKS);
        }
    }
}

/// The snapshots since the last look, oldest first, and the current one.
type Looked = (Vec<Snapshot>, Snapshot);

/// Serves and publishes the results of `look` until the returned value is dropped.
fn show(address: SocketAddr, look: impl Fn() -> Looked + Send + 'static) -> Result<Shown> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let edition = since.as_nanos() as u64;
    let document = Arc::new(Mutex::new(Document { text: Vec::new(), edition, asked: None }));
    let (over, report) = (Arc::default(), Arc::default());
    let mut publisher = Publisher {
        look: Box::new(look),
        over: Arc::clone(&over),
        report: Arc::clone(&report),
        document: Arc::clone(&document),
        watch: Watch::new(),
        last: None,
    };
    publisher.publish();
    let service = service(pages::live::page()?, Arc::clone(&document));
    let server = Server::new(service).listen(address).spawn();
    let server = server.with_context(|| format!("cannot serve at {address}"))?;
    let publisher = thread::spawn(move || {
        while !publisher.publish() {
            thread::sleep(LOOK);
        }
    });
    Ok(Shown { over, report, document, publisher: Some(publisher), server })
}

/// A service with the page and the document.
fn service(page: String, document: Arc<Mutex<Document>>) -> Http<()> {
    let mut service = http(move |request, response| {
        if page::admits(&request, response) {
            answer(&page, &document, &request, response);
        }
    });
    (service.patience, service.body_max) = (PATIENCE, 0);
    service
}

fn answer(
    page: &str,
    document: &Mutex<Document>,
    request: &HttpRequest<'_>,
    response: &mut HttpResponse,
) {
    match (request.method, request.path) {
        ("GET", "/") => page::give(page.as_bytes(), response),
        ("GET", "/state.json") => {
            let mut document = locked(document);
            document.asked = Some(Instant::now());
            let tag = format!("\"{:x}\"", document.edition);
            match request.field("If-None-Match") {
                Some(known) if known == tag.as_bytes() => drop(response.status(304)),
                _ => response.json(&document.text),
            }
            response.field("ETag", tag);
        }
        (_, "/" | "/state.json") => {
            response.status(405).field("Allow", "GET, HEAD").text("expected GET or HEAD\n");
        }
        _ => response.status(404).text("there is no such page\n"),
    }
}

/// Publishes an edition after each change, and one more at the end.
struct Publisher {
    look: Box<dyn Fn() -> Looked + Send>,
    over: Arc<AtomicBool>,
    report: Arc<Mutex<Option<PathBuf>>>,
    document: Arc<Mutex<Document>>,
    watch: Watch,
    last: Option<Snapshot>,
}

impl Publisher {
    /// Publishes what is new; true after the last edition.
    fn publish(&mut self) -> bool {
        let ends = self.over.load(Ordering::Acquire);
        let (earlier, mut shot) = (self.look)();
        for earlier in &earlier {
            // Only its comparisons are kept: the history of the intervals.
            self.watch.document(earlier, None);
        }
        shot.ended |= ends;
        if ends || self.last.as_ref().is_none_or(|last| *last != timeless(&shot)) {
            let report = locked(&self.report).as_ref().map(|path| path.display().to_string());
            let text = edition(&mut self.watch, &mut shot, report.as_deref());
            let mut document = locked(&self.document);
            (document.text, document.edition) = (text, document.edition + 1);
            self.last = Some(timeless(&shot));
        }
        ends
    }
}

/// The snapshot without its clocks, which the page advances by itself.
fn timeless(shot: &Snapshot) -> Snapshot {
    Snapshot { elapsed_ms: 0, left_ms: None, ..shot.clone() }
}

/// The document as JSON.
fn edition(watch: &mut Watch, shot: &mut Snapshot, report: Option<&str>) -> Vec<u8> {
    let text = serde_json::to_vec(&watch.document(shot, report)).unwrap_or_default();
    if text.len() <= DOCUMENT_MAX {
        return text;
    }
    // A race with very many arms: without its history the document is a tenth as long.
    *watch = Watch::new();
    shot.noise.clear();
    serde_json::to_vec(&watch.document(shot, report)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edition_is_sent_once_to_who_names_it_and_to_no_name_that_can_be_rebound() {
        let document = Document { text: b"{}".to_vec(), edition: 7, asked: None };
        let mut service = service("<h1>live</h1>".to_owned(), Arc::new(Mutex::new(document)));
        service.dated = false;
        let common = r"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
        let text = r"Content-Type: text/plain; charset=utf-8\r\nContent-Length:";
        let script = format!(
            r#">| GET /state.json HTTP/1.1\r\nHost: [::1]:9\r\n\r\n
<| HTTP/1.1 200 OK\r\n{common}ETag: "7"\r\nContent-Type: application/json\r\n
<| Content-Length: 2\r\n\r\n{{}}
>| GET /state.json HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: "7"\r\n\r\n
<| HTTP/1.1 304 Not Modified\r\n{common}ETag: "7"\r\n\r\n
>| HEAD / HTTP/1.1\r\nHost: evil.example\r\n\r\n
<| HTTP/1.1 403 Forbidden\r\n{common}{text} 41\r\n\r\n
>| POST / HTTP/1.1\r\nHost: [::1]\r\n\r\n
<| HTTP/1.1 405 Method Not Allowed\r\n{common}Allow: GET, HEAD\r\n{text} 21\r\n
<| \r\nexpected GET or HEAD\n
"#
        );
        roundhouse::sim::check(&service, &script, 10);
    }
}
