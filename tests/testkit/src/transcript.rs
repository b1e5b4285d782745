//! A program's output through a pipe, collected as it comes.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A pipe that is read to its end, even after its last reader is gone, so that its writer never
/// fails.
#[derive(Clone, Debug, Default)]
pub struct Transcript(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    pipe: Mutex<Pipe>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Pipe {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Transcript {
    /// Reads `from` on a separate thread.
    pub fn of(mut from: impl Read + Send + 'static) -> Transcript {
        let transcript = Transcript::default();
        let shared = Arc::clone(&transcript.0);
        std::thread::spawn(move || {
            let mut scratch = [0; 16 * 1024];
            loop {
                // A pseudo-terminal reports its end as an error (EIO).
                let count = from.read(&mut scratch).unwrap_or(0);
                let mut pipe = shared.pipe.lock().unwrap_or_else(PoisonError::into_inner);
                pipe.bytes.extend_from_slice(&scratch[..count]);
                pipe.has_ended = count == 0;
                shared.more.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        transcript
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.0.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.pipe().bytes.clone()
    }

    /// Everything so far, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.pipe().bytes).into_owned()
    }

    /// Whether the last writer has closed the pipe.
    pub fn has_ended(&self) -> bool {
        self.pipe().has_ended
    }

    /// Waits until the pipe holds what `look` wants; `None` if it ends or the time is over before
    /// that.
    pub fn wait<T>(&self, limit: Duration, mut look: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
        let end = Instant::now() + limit;
        let mut pipe = self.pipe();
        loop {
            if let Some(value) = look(&pipe.bytes) {
                return Some(value);
            }
            let left = end.saturating_duration_since(Instant::now());
            if pipe.has_ended || left.is_zero() {
                return None;
            }
            let waited = self.0.more.wait_timeout(pipe, left);
            pipe = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the end of the pipe; false if the time is over before that.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        self.wait(limit, |_| None::<()>);
        self.has_ended()
    }
}
