//! The machine's side of a race: a directory for its files, a book of stocks, and its views.

mod book;
mod lines;
mod screen;

pub use book::{BOOK, book};
pub use lines::Lines;
pub use screen::Screen;

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
pub use tempfile::TempDir;

/// A directory `NAME-PID-RANDOM` for the files of one run; dropping it removes it. Only this user
/// can list it and write in it; a server that gives up root's rights, as nginx does, still reads
/// its files by their names. Directories that killed runs of this user have left are removed first.
pub fn room(name: &str) -> Result<TempDir> {
    let folder = std::env::temp_dir();
    sweep(&folder, name);
    let made = tempfile::Builder::new()
        .prefix(&format!("{name}-{}-", std::process::id()))
        .permissions(fs::Permissions::from_mode(0o711))
        .tempdir();
    let made = made.with_context(|| format!("cannot make a directory in {}", folder.display()))?;
    // In another process namespace our number means nothing. The lock lasts as long as we do.
    let life = fs::File::open(made.path())?;
    life.lock()?;
    std::mem::forget(life);
    Ok(made)
}

/// Removes the directories `NAME-PID` and `NAME-PID-RANDOM` whose processes are gone.
fn sweep(folder: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let owner = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix('-'));
        let owner = owner.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        let Some(owner) = owner else { continue };
        let is_ours = fs::symlink_metadata(entry.path())
            .is_ok_and(|about| about.is_dir() && about.uid() == sys::own::user());
        let is_free = || fs::File::open(entry.path()).is_ok_and(|room| room.try_lock().is_ok());
        if is_ours && !Path::new(&format!("/proc/{owner}")).exists() && is_free() {
            // The next run tries again to remove the rest.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_ours_alone_and_the_rooms_of_the_dead_are_swept() {
        let make = || room("roundhouse-room-test").expect("a temporary directory");
        let (first, second) = (make(), make());
        let mode = fs::metadata(first.path()).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o711);
        // No process has that number: it is above the kernel's limit (proc(5), pid_max).
        let dead = ["roundhouse-room-test-4194999", "roundhouse-room-test-4194999-Ab3"];
        let dead = dead.map(|name| std::env::temp_dir().join(name));
        for path in &dead {
            fs::create_dir_all(path.join("inside")).expect("a temporary directory");
        }
        drop(make());
        assert!(dead.iter().all(|path| !path.exists()));
        assert!(first.path().exists() && second.path().exists());
    }
}
