//! A folder of one test, the site that most of them serve, and what the tests say where a machine
//! lacks something.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away with the test.
pub struct Room(PathBuf);

/// Bytes of `/great`.
pub const GREAT: usize = 10 << 20;

impl Room {
    /// An empty folder that nobody else has.
    pub fn new() -> Room {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("roundhouse-web-{}-{serial}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Room(path)
    }

    /// `a.txt` of ten digits, and `great`, no two pages of which are alike.
    pub fn site() -> Room {
        let room = Room::new();
        room.file("a.txt", b"0123456789");
        room.file("great", &great());
        room
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and says where it is.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The bytes of `/great`: each four of them are their own place, so that a piece that comes twice,
/// too late or not at all is seen.
pub fn great() -> Vec<u8> {
    (0..GREAT as u32 / 4).flat_map(u32::to_le_bytes).collect()
}

/// Says that a test, or a part of it, cannot be made on this machine. `what` has a row in
/// `tests/skips.toml`, for nothing is left out without a reason that somebody has read.
///
/// # Panics
/// If there is no such row.
pub fn skip(what: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/skips.toml");
    let rows = std::fs::read_to_string(path).expect("the list of skips");
    let row = format!("what = \"{what}\"");
    assert!(rows.lines().any(|line| line == row), "expected a row {row} in tests/skips.toml");
    println!("skipped: {what}");
}

/// `short`, or `long` where storms may last (`ROUNDHOUSE_SOAK=1`).
pub fn soak<T>(short: T, long: T) -> T {
    if std::env::var_os("ROUNDHOUSE_SOAK").is_some_and(|word| word == "1") { long } else { short }
}
