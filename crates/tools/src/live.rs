//! A race in a browser while it runs: a page and its document, served by our own web service under
//! one of our own engines, on a thread of this process.
//!
//! ```text
//!   lab::live::Live  --snapshot-->  pages::live::Watch  --document-->  Bulletin  --events-->  page
//! ```
//!
//! A race only calls [`open`]; the returned value publishes until it is dropped. It publishes at
//! most four times a second, and only changes, because the machine that serves the page is the
//! measured one.

mod follow;

pub use follow::{Args, run};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use lab::live::{Live, Snapshot};
use language::eprintln;
use pages::live::{POLICY, Watch};
use roundhouse::{Server, ServerHandle};
use services::pages::{Bulletin, Page, Pages};

/// The interval at which the race is read.
const LOOK: Duration = Duration::from_millis(250);

/// How long the last event may take to reach the listeners.
const FAREWELL: Duration = Duration::from_secs(2);

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
    publisher: Option<JoinHandle<()>>,
    server: ServerHandle<Bulletin>,
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
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
    }

    /// The address of the page.
    pub fn listening(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The publisher ends after its last edition; the drain of the server's handle then sends it
        // to all listeners.
        self.over.store(true, Ordering::Release);
        if let Some(publisher) = self.publisher.take() {
            let _ = publisher.join();
        }
    }
}

/// The snapshots since the last look, oldest first, and the current one.
type Looked = (Vec<Snapshot>, Snapshot);

/// Serves and publishes the results of `look` until the returned value is dropped.
fn show(address: SocketAddr, look: impl Fn() -> Looked + Send + 'static) -> Result<Shown> {
    let page = Page {
        path: "/".to_owned(),
        kind: "text/html; charset=utf-8",
        fields: vec![
            ("Content-Security-Policy", POLICY.to_owned()),
            ("Referrer-Policy", "no-referrer".to_owned()),
        ],
        body: pages::live::page()?.into_bytes().into(),
    };
    let server = Server::new(Pages::new(vec![page])).seed(token().to_le_bytes()).drain(FAREWELL);
    let server = server.listen(address).spawn();
    let server = server.with_context(|| format!("cannot serve at {address}"))?;
    let bulletin = server.state();
    let over = Arc::new(AtomicBool::new(false));
    let report = Arc::new(Mutex::new(None));
    let publisher = {
        let (over, report) = (Arc::clone(&over), Arc::clone(&report));
        thread::spawn(move || publish(&bulletin, &look, &over, &report))
    };
    Ok(Shown { over, report, publisher: Some(publisher), server })
}

/// Distinguishes this server from an earlier one at the same address.
fn token() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40)
}

/// Publishes an edition after each change, and one more at the end.
fn publish(
    bulletin: &Bulletin,
    look: &dyn Fn() -> Looked,
    over: &AtomicBool,
    report: &Mutex<Option<PathBuf>>,
) {
    let mut watch = Watch::new();
    let mut last: Option<Snapshot> = None;
    loop {
        let ends = over.load(Ordering::Acquire);
        let (earlier, mut shot) = look();
        for earlier in &earlier {
            // Only its comparisons are kept: the history of the intervals.
            watch.document(earlier, None);
        }
        shot.ended |= ends;
        if ends || last.as_ref().is_none_or(|last| *last != timeless(&shot)) {
            let report = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let report = report.map(|path| path.display().to_string());
            edition(bulletin, &mut watch, &mut shot, report.as_deref());
            last = Some(timeless(&shot));
        }
        if ends {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// The snapshot without its clocks, which the page advances by itself.
fn timeless(shot: &Snapshot) -> Snapshot {
    Snapshot { elapsed_ms: 0, left_ms: None, ..shot.clone() }
}

fn edition(bulletin: &Bulletin, watch: &mut Watch, shot: &mut Snapshot, report: Option<&str>) {
    let document = watch.document(shot, report);
    let Ok(text) = serde_json::to_vec(&document) else { return };
    if bulletin.publish(&text).is_ok() {
        return;
    }
    // A race with very many arms: without its history the document is a tenth as long.
    *watch = Watch::new();
    shot.noise.clear();
    if let Ok(text) = serde_json::to_vec(&watch.document(shot, report)) {
        let _ = bulletin.publish(&text);
    }
}
