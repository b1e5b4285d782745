//! Pages in a real Chromium: the report and the exhibit from their files, the live page from its
//! server. Where there is no Chromium the tests say so; what needs none is tested anyway.

mod browser;
mod live;
mod path;
mod report;
mod web;

use std::path::PathBuf;

/// A directory of one test, removed with its guard.
pub struct Room(pub PathBuf);

impl Room {
    /// A directory of its own.
    pub fn new(name: &str) -> Room {
        let path = std::env::temp_dir().join(format!("cli-pages-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Room(path)
    }

    /// Writes a file and returns its address.
    pub fn page(&self, name: &str, html: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, html).expect("the room is writable");
        format!("file://{}", path.display())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
