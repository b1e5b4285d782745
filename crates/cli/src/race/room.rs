//! A directory for the files of one run, gone with it.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// The directory; dropping it removes it.
pub struct Room(pub PathBuf);

impl Room {
    /// Makes `NAME-PID` in the temporary directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(name: &str) -> Result<Room> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Room(path))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Files that cannot be removed are in the temporary directory and disappear with it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
