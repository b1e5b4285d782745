//! The settings that can change while workers serve: the supervisor writes them, workers read them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits in force. Each value is consistent by itself; readers of several read one after another.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Settings {
    idle_ns: AtomicU64,
    write_stall_ns: AtomicU64,
    sessions_max: AtomicU64,
    memory_max: AtomicU64,
}

impl Settings {
    /// The time without traffic after which a connection is closed.
    #[inline]
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_nanos(self.idle_ns.load(Ordering::Relaxed))
    }

    /// The time that a peer may take no output.
    #[inline]
    #[must_use]
    pub fn write_stall(&self) -> Duration {
        Duration::from_nanos(self.write_stall_ns.load(Ordering::Relaxed))
    }

    /// The maximum number of connections at one time in the whole server.
    #[inline]
    #[must_use]
    pub fn sessions_max(&self) -> usize {
        self.sessions_max.load(Ordering::Relaxed) as usize
    }

    /// The memory that all connections may hold, in bytes.
    #[inline]
    #[must_use]
    pub fn memory_max(&self) -> u64 {
        self.memory_max.load(Ordering::Relaxed)
    }

    /// Sets the memory that all connections may hold, in bytes.
    pub fn set_memory_max(&self, bytes: u64) {
        self.memory_max.store(bytes, Ordering::Relaxed);
    }

    /// Sets both times.
    pub fn set_times(&self, idle: Duration, write_stall: Duration) {
        self.idle_ns.store(whole_ns(idle), Ordering::Relaxed);
        self.write_stall_ns.store(whole_ns(write_stall), Ordering::Relaxed);
    }

    /// Sets the maximum number of connections.
    pub fn set_sessions_max(&self, most: usize) {
        self.sessions_max.store(most as u64, Ordering::Relaxed);
    }
}

/// 584 years fit; longer times are cut.
fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_force_is_read() {
        let settings = Settings::default();
        let seconds = Duration::from_secs;
        settings.set_times(Duration::MAX, seconds(3));
        settings.set_sessions_max(17);
        assert!(settings.idle() > seconds(1 << 33));
        assert_eq!((settings.write_stall(), settings.sessions_max()), (seconds(3), 17));
    }
}
