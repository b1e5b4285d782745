//! A thread in which futures run, for functions that may block: clients of databases and of other
//! services are often async.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use crate::parts::lock::lock;
use tokio::runtime::{self, Handle};

/// The time that a future gets, unless [`AsyncThread::within`] says another.
const PATIENCE: Duration = Duration::from_secs(10);

/// A thread with a runtime of tokio, in which functions of `offload` wait for futures. So an async
/// client serves a service on every engine, those without tokio too.
///
/// It is a `static`: each worker process starts its own thread when it first needs one. Use none
/// before the server runs: a process with threads is not forked. The futures of all helper threads
/// run in it side by side.
///
/// ```
/// use std::convert::Infallible;
///
/// use engines::AsyncThread;
///
/// static ASYNC: AsyncThread = AsyncThread::new();
///
/// async fn ask(word: String) -> Result<usize, Infallible> {
///     tokio::task::yield_now().await; // A client of a database waits here.
///     Ok(word.len())
/// }
///
/// assert_eq!(3, ASYNC.run(ask("tea".to_owned()))??);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncThread {
    within: Duration,
    running: Mutex<Option<Handle>>,
}

impl AsyncThread {
    /// A thread that starts with the first future.
    pub const fn new() -> AsyncThread {
        AsyncThread { within: PATIENCE, running: Mutex::new(None) }
    }

    /// Gives each future this time in place of ten seconds.
    #[must_use]
    pub const fn within(self, within: Duration) -> AsyncThread {
        // A destructor does not run at compile time, so the parts cannot be moved one by one.
        let mut thread = self;
        thread.within = within;
        thread
    }

    /// Runs a future and waits for its result; never inside of another future of the same thread.
    ///
    /// # Errors
    /// The thread did not start, the future panicked, or it took too long; then it is dropped.
    pub fn run<R: Send + 'static>(
        &self,
        future: impl Future<Output = R> + Send + 'static,
    ) -> Result<R, AsyncError> {
        let handle = self.handle().map_err(AsyncError::NotStarted)?;
        let (done, result) = sync_channel(1);
        let task = handle.spawn(async move {
            // Only a function that has given up does not read it.
            let _ = done.send(future.await);
        });
        result.recv_timeout(self.within).map_err(|why| match why {
            RecvTimeoutError::Disconnected => AsyncError::Panicked,
            RecvTimeoutError::Timeout => {
                task.abort();
                AsyncError::Late(self.within)
            }
        })
    }

    /// The runtime of this process's thread, which is started if need be.
    fn handle(&self) -> io::Result<Handle> {
        let mut running = lock(&self.running);
        if let Some(handle) = &*running {
            return Ok(handle.clone());
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let forever = move || runtime.block_on(std::future::pending::<()>());
        Builder::new().name("async".to_owned()).spawn(forever)?;
        *running = Some(handle.clone());
        Ok(handle)
    }
}

impl Default for AsyncThread {
    fn default() -> AsyncThread {
        AsyncThread::new()
    }
}

/// The reason that a future of an [`AsyncThread`] has no result.
#[derive(Debug)]
pub enum AsyncError {
    /// The system gave no thread, or no descriptor for its runtime.
    NotStarted(io::Error),
    /// The future panicked; its place is on stderr.
    Panicked,
    /// The future was not ready within this time.
    Late(Duration),
}

impl fmt::Display for AsyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsyncError::NotStarted(why) => write!(
                f,
                "expected to start the thread of async clients, found: {why}; raise the limit of \
                 threads or open files"
            ),
            AsyncError::Panicked => f.write_str("expected a result, found a future that panicked"),
            AsyncError::Late(within) => write!(
                f,
                "expected a result within {within:?}: allow more by `AsyncThread::within`"
            ),
        }
    }
}

impl Error for AsyncError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AsyncError::NotStarted(why) => Some(why),
            AsyncError::Panicked | AsyncError::Late(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn futures_of_many_threads_run_side_by_side() {
        static ASYNC: AsyncThread = AsyncThread::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ask = move || {
            ASYNC.run(async move {
                let mut bytes = Vec::new();
                TcpStream::connect(address).await?.read_to_end(&mut bytes).await?;
                io::Result::Ok(bytes)
            })
        };
        let clients: Vec<_> = (0..4).map(|_| thread::spawn(ask)).collect();
        // None is answered before all have come.
        let peers: Vec<_> = (0..4).map(|_| listener.accept().expect("a client").0).collect();
        for mut peer in peers {
            io::Write::write_all(&mut peer, b"tea").expect("a reader");
        }
        for client in clients {
            let bytes = client.join().expect("no panic").expect("a result").expect("bytes");
            assert_eq!(bytes, b"tea");
        }
    }

    #[test]
    fn a_late_future_and_one_that_panics_leave_the_thread_usable() {
        static HASTY: AsyncThread = AsyncThread::new().within(Duration::from_millis(50));
        let late = HASTY.run(std::future::pending::<()>());
        assert!(matches!(late, Err(AsyncError::Late(_))), "{late:?}");
        static ASYNC: AsyncThread = AsyncThread::new();
        let broken = ASYNC.run(async { panic!("on purpose") });
        assert!(matches!(broken, Err::<(), _>(AsyncError::Panicked)), "{broken:?}");
        assert_eq!(ASYNC.run(async { 7 }).expect("a result"), 7);
    }
}
