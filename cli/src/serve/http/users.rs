//! `--auth`: paths whose users are in a file of htpasswd(1).

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use ::web::Guard;
use anyhow::{Context, Result};

/// The value of `--auth`.
#[derive(Clone, Debug)]
pub struct UsersFlag {
    guard: Guard,
    path: PathBuf,
}

impl FromStr for UsersFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<UsersFlag, String> {
        let (prefix, path) =
            text.split_once('=').filter(|it| !it.1.is_empty()).ok_or_else(|| {
                format!("expected /PREFIX=FILE, such as /private=users, found `{text}`")
            })?;
        Ok(UsersFlag { guard: Guard::new(prefix)?, path: path.into() })
    }
}

/// The files of all guards.
#[derive(Debug, Default)]
pub struct UserFiles {
    flags: Vec<UsersFlag>,
    latest: AtomicU32,
}

impl UserFiles {
    pub fn open(flags: &[UsersFlag]) -> Result<UserFiles> {
        let files = UserFiles { flags: flags.to_vec(), latest: AtomicU32::new(0) };
        files.read().map(|()| files)
    }

    /// The guards, which share their users with the files.
    pub fn guards(&self) -> Vec<Guard> {
        self.flags.iter().map(|flag| flag.guard.clone()).collect()
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }

    /// Reads the files again at a reload; returns a report. Threads share the users, so only the
    /// first of them does.
    pub fn renew(&self, edition: u32) -> Option<String> {
        if self.is_empty() || self.latest.swap(edition, Ordering::Relaxed) == edition {
            return None;
        }
        Some(match self.read() {
            Ok(()) => "the users were reloaded".to_owned(),
            Err(error) => format!("the users are unchanged: {error:#}"),
        })
    }

    fn read(&self) -> Result<()> {
        for UsersFlag { guard, path } in &self.flags {
            let bytes = sys::input::read(path, sys::input::SMALL)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let text = String::from_utf8_lossy(&bytes);
            guard.set_users(&text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}
