//! The settings that can change while workers serve: the supervisor writes them, workers read them.
//!
//! The board knows no setting by its name, except its own budget of memory: a cell is a word, whose
//! meaning is a row of the engines' table of settings.

use std::sync::atomic::{AtomicU64, Ordering};

/// Settings in force. Each is consistent by itself; readers of several read one after another.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Settings {
    cells: [AtomicU64; Settings::CELLS],
    memory_max: AtomicU64,
}

impl Settings {
    /// The number of cells: the reloadable settings, and some to come.
    pub const CELLS: usize = 12;

    /// The value of a cell.
    ///
    /// # Panics
    /// There are only [`Settings::CELLS`].
    #[inline]
    #[must_use]
    pub fn get(&self, cell: usize) -> u64 {
        self.cells[cell].load(Ordering::Relaxed)
    }

    /// Sets the value of a cell.
    ///
    /// # Panics
    /// There are only [`Settings::CELLS`].
    pub fn set(&self, cell: usize, value: u64) {
        self.cells[cell].store(value, Ordering::Relaxed);
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
}
