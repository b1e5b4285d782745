//! Things that a machine may lack, and the foreign programs that tests look for.
//!
//! `tests/skips.toml` lists each thing that may be missing. On a developer's machine a test that
//! misses a listed thing says so and passes. Continuous integration installs everything that can be
//! installed, so under `CI=true` the same test fails, unless the row says in `ci` why continuous
//! integration may lack the thing too.

use std::path::PathBuf;

use engines::{PRESETS, Preset, Wait};
use sys::uring::{Setup, Uring};

const ROWS: &str = include_str!("../../../tests/skips.toml");

/// Names under which Chromium is installed.
const CHROMIUM: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Reports that a test, or a part of it, cannot run on this machine.
///
/// # Panics
/// If `tests/skips.toml` does not list `what`, or under `CI=true` if the row does not allow it.
#[track_caller]
pub fn skip(what: &str) {
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    match verdict(ROWS, what, is_ci) {
        Ok(()) => println!("skipped: {what}"),
        Err(why) => panic!("{why}"),
    }
}

/// Skips where nothing was found.
#[track_caller]
fn or_skip<T>(found: Option<T>, what: &str) -> Option<T> {
    if found.is_none() {
        skip(what);
    }
    found
}

/// Whether the rows allow that `what` is missing.
fn verdict(rows: &str, what: &str, is_ci: bool) -> Result<(), String> {
    let rows: toml::Table = rows.parse().map_err(|error| format!("tests/skips.toml: {error}"))?;
    let lacks = rows.get("lack").and_then(toml::Value::as_array);
    let row = lacks.into_iter().flatten().find(|row| row["what"].as_str() == Some(what));
    match row {
        None => Err(format!("expected a row `what = \"{what}\"` in tests/skips.toml")),
        Some(row) if is_ci && row.get("ci").is_none() => {
            Err(format!("CI must have this, and it is missing: {what}; install it in .ci/run"))
        }
        Some(_) => Ok(()),
    }
}

/// The path of a program: on the search path, or where Debian keeps servers.
pub fn program(name: &str) -> Option<PathBuf> {
    which::which(name).or_else(|_| which::which_in(name, Some("/usr/sbin"), "/")).ok()
}

/// The program of an example, which cargo builds next to the tests; `None`, with a skip, without
/// it.
#[track_caller]
pub fn example(name: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().expect("this program has a path");
    let found = here.ancestors().nth(2).map(|dir| dir.join("examples").join(name));
    or_skip(found.filter(|path| path.exists()), "examples next to the tests")
}

/// Whether a program is installed; skips where it is not.
#[track_caller]
pub fn has(name: &str) -> bool {
    or_skip(program(name), name).is_some()
}

/// Locust: the program at the path in `ROUNDHOUSE_LOCUST`, or on the search path; skips without it.
#[track_caller]
pub fn locust() -> Option<PathBuf> {
    let named = std::env::var_os("ROUNDHOUSE_LOCUST").map(PathBuf::from);
    or_skip(named.filter(|path| path.is_file()).or_else(|| program("locust")), "locust")
}

/// The browser; skips where there is none.
#[track_caller]
pub fn chromium() -> Option<PathBuf> {
    or_skip(CHROMIUM.iter().find_map(|name| program(name)), "chromium")
}

/// Whether the kernel lets us make a ring; skips where it does not.
#[track_caller]
pub fn has_uring() -> bool {
    static IS_HERE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    // Closing a ring interrupts the thread that made it, so a separate thread makes it.
    let make = || Uring::new(&Setup::default()).is_ok();
    let is_here = *IS_HERE.get_or_init(|| std::thread::spawn(make).join().unwrap_or(false));
    or_skip(is_here.then_some(()), "io_uring").is_some()
}

/// The engines of this machine that need no network interface of their own.
pub fn presets() -> impl Iterator<Item = &'static Preset> {
    PRESETS.iter().filter(|preset| {
        let is_ring = matches!(preset.wait, Wait::Uring | Wait::Port);
        !preset.needs_interface() && (!is_ring || has_uring())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[lack]]\nwhat = \"a\"\nreason = \"r\"\n\
        [[lack]]\nwhat = \"b\"\nreason = \"r\"\nci = \"no such kernel\"\n";

    #[test]
    fn ci_allows_only_what_the_row_allows() {
        for (what, is_ci, allowed) in
            [("a", false, true), ("a", true, false), ("b", true, true), ("c", false, false)]
        {
            assert_eq!(verdict(TWO, what, is_ci).is_ok(), allowed, "{what} {is_ci}");
        }
    }

    #[test]
    fn every_row_has_a_reason() {
        let rows: toml::Table = ROWS.parse().expect("TOML");
        for row in rows["lack"].as_array().expect("rows") {
            let text = |key: &str| row.get(key).map(|value| value.as_str().unwrap_or_default());
            assert!(text("what").is_some_and(|what| !what.is_empty()), "{row}");
            assert!(text("reason").is_some_and(|reason| reason.len() > 20), "{row}");
            assert!(text("ci").is_none_or(|reason| reason.len() > 20), "{row}");
        }
    }
}
