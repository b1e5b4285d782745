//! Races, duets and exhibits of the museum from the real binary, each at its smallest size. The
//! tests check files and output, not speeds.

mod ab;
mod bypass;
mod checkup;
mod docs;
mod duet;
mod far;
mod museum;
mod museum_parts;
mod output;
mod race;
mod veth;

/// Tests that compare times. `cargo xtask ci` runs no other suite next to them.
mod quiet {
    mod ab;
    mod museum;
    mod race;
    mod tune;
}

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use testkit::{Ended, Folder, run};

const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Exhibits about time have the machine to themselves. Tests of counts alone, such as the arms that
/// answered and the number of threads, may run in parallel.
static TURN: RwLock<()> = RwLock::new(());

/// A folder of one test, and the turn to use the machine.
struct Room {
    folder: Folder,
    _alone: Option<RwLockWriteGuard<'static, ()>>,
    _shared: Option<RwLockReadGuard<'static, ()>>,
}

impl Room {
    fn alone() -> Room {
        let turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
        Room { folder: Folder::new(), _alone: Some(turn), _shared: None }
    }

    fn shared() -> Room {
        let turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
        Room { folder: Folder::new(), _alone: None, _shared: Some(turn) }
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
