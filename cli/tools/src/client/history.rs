//! The history file: `$XDG_STATE_HOME/roundhouse/history`, or below `~/.local/state` (XDG Base
//! Directory Specification 0.8).

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// The maximum number of lines that are kept.
pub const LINES_MAX: usize = 1000;

/// The file; `None` if the environment names no directory.
pub fn file() -> Option<PathBuf> {
    path(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn path(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The specification has relative paths ignored.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = state
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".local/state")))?;
    Some(state.join("roundhouse/history"))
}

/// Makes the file's directory, for its owner only.
///
/// # Errors
/// If it cannot be made.
pub fn make_room(file: &std::path::Path) -> std::io::Result<()> {
    match file.parent() {
        Some(dir) => DirBuilder::new().recursive(true).mode(0o700).create(dir),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::path;
    use std::path::Path;

    #[test]
    fn the_state_directory_goes_before_home() {
        let check = |state: Option<&str>, home: Option<&str>, expected: Option<&str>| {
            let found = path(state.map(Into::into), home.map(Into::into));
            assert_eq!(found.as_deref(), expected.map(Path::new));
        };
        check(Some("/s"), Some("/h"), Some("/s/roundhouse/history"));
        check(None, Some("/h"), Some("/h/.local/state/roundhouse/history"));
        check(Some("s"), Some("/h"), Some("/h/.local/state/roundhouse/history"));
        check(Some(""), Some("/h"), Some("/h/.local/state/roundhouse/history"));
        check(None, Some("h"), None);
        check(None, None, None);
    }
}
