//! How much a program prints on stderr besides errors. Results on stdout do not depend on it.

use std::io::Write;
use std::sync::OnceLock;

/// How much is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Errors, by [`eprintln!`](crate::eprintln): `--quiet`.
    Quiet,
    /// Progress, doubts and hints too, by [`info!`](crate::info).
    #[default]
    Plain,
    /// Also each step, by [`debug!`](crate::debug): `--verbose`.
    Verbose,
}

/// The level of this process. It is set once, when the command line has been parsed.
static CHOSEN: OnceLock<Level> = OnceLock::new();

impl Level {
    /// The level that two flags ask for; `--quiet` wins.
    pub fn of(quiet: bool, verbose: bool) -> Level {
        match (quiet, verbose) {
            (true, _) => Level::Quiet,
            (false, true) => Level::Verbose,
            (false, false) => Level::Plain,
        }
    }

    /// Makes this the level of the process, unless it has one.
    pub fn choose(self) {
        let _ = CHOSEN.set(self);
    }

    /// The level of this process.
    pub fn chosen() -> Level {
        CHOSEN.get().copied().unwrap_or_default()
    }
}

/// Whether progress is shown.
pub fn is_quiet() -> bool {
    Level::chosen() == Level::Quiet
}

/// Whether each step is printed.
pub fn is_verbose() -> bool {
    Level::chosen() == Level::Verbose
}

/// How this process prints a line; std's way, unless a server has set its own.
static PRINTER: OnceLock<fn(&str)> = OnceLock::new();

/// Makes `printer` print all lines of this process from now on, unless it has a printer. A server
/// needs one that does not wait for the reader of stderr.
pub fn print_by(printer: fn(&str)) {
    let _ = PRINTER.set(printer);
}

/// Prints a line on stderr in one write, because several processes of a server may print at the
/// same time.
pub fn print(text: &str) {
    if let Some(printer) = PRINTER.get() {
        return printer(text);
    }
    // Nothing can be done about a closed stderr.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints a line on stderr in the chosen language, at every level: an error, or a result.
#[macro_export]
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::level::print(&$crate::tr(&::std::format!($($words)*))) };
}

/// Prints a line as [`eprintln!`](crate::eprintln) does, unless the process is quiet: progress, a
/// doubt, a hint.
#[macro_export]
macro_rules! info {
    ($($words:tt)*) => {
        if !$crate::level::is_quiet() { $crate::eprintln!($($words)*) }
    };
}

/// Prints a step on stderr, in English as logs are, if the process is verbose.
#[macro_export]
macro_rules! debug {
    ($($words:tt)*) => {
        if $crate::level::is_verbose() { $crate::level::print(&::std::format!($($words)*)) }
    };
}
