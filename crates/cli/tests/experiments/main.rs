//! Races, duets and exhibits of the museum from the real binary, each at its smallest size. The
//! tests check files and output, not speeds.

mod ab;
mod docs;
mod duet;
mod far;
mod museum;
mod museum_parts;
mod output;
mod race;
mod tune;

use std::path::Path;
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use testkit::{Ended, Folder, run};

const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

/// Exhibits about time have the machine to themselves. Tests of counts alone, such as the arms that
/// answered and the number of threads, may run in parallel.
static TURN: RwLock<()> = RwLock::new(());

/// The turn to use the machine.
enum Turn {
    Alone { _guard: RwLockWriteGuard<'static, ()> },
    Shared { _guard: RwLockReadGuard<'static, ()> },
}

/// A folder of one test, and the turn to use the machine.
struct Room {
    folder: Folder,
    _turn: Turn,
}

impl Room {
    fn alone() -> Room {
        let guard = TURN.write().unwrap_or_else(PoisonError::into_inner);
        Room { folder: Folder::new(), _turn: Turn::Alone { _guard: guard } }
    }

    fn shared() -> Room {
        let guard = TURN.read().unwrap_or_else(PoisonError::into_inner);
        Room { folder: Folder::new(), _turn: Turn::Shared { _guard: guard } }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn text(&self, name: &str) -> String {
        self.folder.text(name)
    }

    /// The command with these words, in this folder.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(words).current_dir(self.path());
        command
    }

    /// Runs the command with these words to its end.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Ended {
        run(&mut self.command(words))
    }
}
