//! Atomic file replacement: a reader, or a crash at any instant, finds the old bytes or the new
//! ones and never a mixture.
//!
//! The order guarantees it: write a temporary file in the same directory, fsync it, rename it over
//! the old one, fsync the directory. A failed fsync is never retried: the kernel may have marked
//! the lost pages clean (Rebello et al., "Can Applications Recover from fsync Failures?", ATC
//! 2020), so the temporary file is removed and the error returned.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes `bytes` the content of the file at `path`, which need not exist. A symbolic link is
/// followed: its target is replaced. The permissions of the old file stay, its owner becomes the
/// caller. A device or a pipe (`/dev/null`, `/dev/stdout`) is written to instead of replaced.
///
/// # Errors
/// Those of opening, writing, syncing and renaming, with the path concerned. After an error the old
/// file is unchanged and no temporary file is left, with one exception: if the last step fails, the
/// fsync of the directory, the new file is in place and may not survive a power failure.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
        Err(error) => return Err(about(path, "resolve", &error)),
    };
    if fs::metadata(&path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let written = OpenOptions::new().write(true).open(&path);
        return written
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|error| about(&path, "write", &error));
    }
    let temporary = beside(&path)?;
    let placed = write_new(&temporary, &path, bytes).and_then(|()| {
        fs::rename(&temporary, &path).map_err(|error| about(&path, "rename onto", &error))
    });
    if let Err(error) = placed {
        // If this fails too, the first error is still the one to report.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder(&path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let synced = File::open(folder(path)).and_then(|it| it.sync_all());
    let act = "be sure that a power failure spares the new content of";
    synced.map_err(|error| about(path, act, &error))
}

/// Makes a file next to `path` and removes it, as [`replace`] will have to.
///
/// # Errors
/// Those of creating and removing, with the path concerned.
pub fn probe(path: &Path) -> io::Result<()> {
    let temporary = beside(path)?;
    let created = OpenOptions::new().write(true).create_new(true).open(&temporary);
    created.map_err(|error| about(&temporary, "create", &error))?;
    fs::remove_file(&temporary).map_err(|error| about(&temporary, "remove", &error))
}

/// Removes what processes that were killed in [`replace`] have left next to the file, and returns
/// how many files. No other process may be replacing it.
///
/// # Errors
/// Those of reading the directory and removing, with the path concerned.
pub fn recover(path: &Path) -> io::Result<usize> {
    let path = &fs::canonicalize(path).map_err(|error| about(path, "resolve", &error))?;
    let (folder, mut removed) = (folder(path), 0);
    for entry in fs::read_dir(folder).map_err(|error| about(folder, "read", &error))?.flatten() {
        if is_left_over(path, &entry.file_name()) {
            let left = entry.path();
            fs::remove_file(&left).map_err(|error| about(&left, "remove", &error))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether `name` is one that [`beside`] makes for `path`.
fn is_left_over(path: &Path, name: &OsStr) -> bool {
    let stem = path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
    let numbers = name.as_encoded_bytes().strip_prefix(b".");
    let numbers = numbers.and_then(|name| name.strip_prefix(stem)?.strip_prefix(b"."));
    let Some(numbers) = numbers.and_then(|name| name.strip_suffix(b".new")) else { return false };
    let mut parts = numbers.split(|byte| *byte == b'-');
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    parts.clone().count() == 2 && parts.all(is_number)
}

/// Its errors name the old file, so that every try at one fault gives one message.
fn write_new(temporary: &Path, old: &Path, bytes: &[u8]) -> io::Result<()> {
    let permissions = match fs::metadata(old) {
        Ok(meta) => Some(meta.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(about(old, "inspect", &error)),
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // The file is created with narrow permissions and widened afterwards, so that no user gains
    // access in between.
    options.mode(permissions.as_ref().map_or(0o666, |it| it.mode() & 0o600));
    let mut file =
        options.open(temporary).map_err(|error| about(old, "create a file next to", &error))?;
    file.write_all(bytes).map_err(|error| about(old, "write", &error))?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)
            .map_err(|error| about(old, "set permissions of", &error))?;
    }
    file.sync_all().map_err(|error| about(old, "sync", &error))
}

/// A unique name in the same directory: the process id keeps programs apart, the counter keeps
/// threads apart.
fn beside(path: &Path) -> io::Result<PathBuf> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    beside_as(path, &format!("{}-{serial}.new", std::process::id()))
}

/// The hidden file `.NAME.SUFFIX` in the directory of `path`.
///
/// # Errors
/// The path does not end with a file name.
pub fn beside_as(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("expected a path that ends with a file name, found {}", path.display()),
        )
    })?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(".");
    temporary.push(suffix);
    Ok(path.with_file_name(temporary))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn about(path: &Path, act: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("could not {act} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::{TempDir, tempdir};

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_then_replaced() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("stock.txt");
        for content in ["1 2 3\n", "", "a longer content than before\n"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(names(&folder), ["stock.txt"]);
        }
    }

    #[test]
    fn permissions_stay() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("stock.txt");
        for mode in [0o600, 0o640, 0o666, 0o400] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            replace(&path, b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            assert_eq!(fs::read(&path).unwrap(), b"new");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink("target", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn what_a_crash_leaves_is_removed() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("stock.txt");
        fs::write(&path, "whole").unwrap();
        for name in [".stock.txt.12-0.new", ".stock.txt.7-33.new"] {
            fs::write(folder.path().join(name), "torn").unwrap();
        }
        let kept = [".stock.txt.1-a.new", ".stock.txt.12.new", ".x.stock.txt.1-1.new", ".x.whole"];
        for name in kept {
            fs::write(folder.path().join(name), "of others").unwrap();
        }
        assert_eq!(recover(&path).unwrap(), 2);
        assert_eq!(names(&folder), [&kept[..], &["stock.txt"]].concat());
        assert_eq!(recover(&path).unwrap(), 0);
    }

    #[test]
    fn a_pipe_stays_a_pipe() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let heard = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        replace(&path, b"new").unwrap();
        assert_eq!(heard.join().unwrap(), b"new");
        assert!(!fs::metadata(&path).unwrap().is_file());
        assert_eq!(names(&folder), ["pipe"]);
    }

    #[test]
    fn a_reader_that_holds_the_old_file_keeps_it() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("stock.txt");
        replace(&path, b"old").unwrap();
        let old = File::open(&path).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(io::read_to_string(old).unwrap(), "old");
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let folder = tempdir().unwrap();
        fs::create_dir(folder.path().join("taken")).unwrap();
        fs::write(folder.path().join("taken/inside"), "kept").unwrap();
        let error = replace(&folder.path().join("taken"), b"new").unwrap_err();
        assert!(error.to_string().contains("rename onto"), "{error}");
        assert_eq!(names(&folder), ["taken"]);
        assert_eq!(fs::read(folder.path().join("taken/inside")).unwrap(), b"kept");
        assert!(replace(&folder.path().join("absent/stock.txt"), b"new").is_err());
        assert!(replace(Path::new("/"), b"new").is_err());
    }

    #[test]
    fn a_disk_that_is_full_leaves_the_old_file() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("stock.txt");
        fs::write(&path, "old").unwrap();
        // A limit on the size of files simulates a full disk; it applies to a child process only.
        let error = limited_replace(&path);
        assert!(error.contains("could not write"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&folder), ["stock.txt"]);
    }

    /// Runs `full_disk_child` of this binary under a limit of one block a file.
    fn limited_replace(path: &Path) -> String {
        let output = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "file::tests::full_disk_child", "--nocapture"])
            .env("SYS_FILE_FULL", path)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn full_disk_child() {
        if let Some(path) = std::env::var_os("SYS_FILE_FULL") {
            let error = replace(Path::new(&path), &[b'x'; 1 << 20]).unwrap_err();
            println!("{error}");
        }
    }
}
