//! Rights that a server gives up once it listens: those of root, those that a program file could
//! give it, and those to write.

use std::ffi::CString;
use std::io;
use std::path::Path;

use landlock::{
    ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use nix::unistd::{self, Gid, Uid};
use rustix::process::{dumpable_behavior, set_dumpable_behavior};

/// A user of this machine without the rights of root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: CString,
    uid: Uid,
    gid: Gid,
}

impl User {
    /// The user of `NAME` or `NAME:GROUP`; without a group the user's own.
    ///
    /// # Errors
    /// There is no such user or group, or it is root.
    pub fn find(text: &str) -> io::Result<User> {
        let bad = |why: String| io::Error::new(io::ErrorKind::NotFound, why);
        let (name, group) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let user = unistd::User::from_name(name)?
            .ok_or_else(|| bad(format!("expected a user, found `{name}`")))?;
        if user.uid.is_root() {
            return Err(bad(format!("expected a user without the rights of root, found `{name}`")));
        }
        let gid = match group {
            None => user.gid,
            Some(name) => {
                unistd::Group::from_name(name)?
                    .ok_or_else(|| bad(format!("expected a group, found `{name}`")))?
                    .gid
            }
        };
        Ok(User { name: CString::new(name)?, uid: user.uid, gid })
    }

    /// Whether the process is this user already.
    pub fn is_this(&self) -> bool {
        unistd::getuid() == self.uid && unistd::geteuid() == self.uid
    }

    /// Gives the file at `path` to the user, who can then remove it.
    ///
    /// # Errors
    /// Those of chown(2).
    pub fn give(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
    }

    /// Becomes the user, with the groups that it belongs to, in all threads and for ever. `/proc`
    /// shows the process to its new owner as before.
    ///
    /// # Errors
    /// `PermissionDenied` if the process is neither root nor this user.
    pub fn enter(&self) -> io::Result<()> {
        if self.is_this() {
            return Ok(());
        }
        let shown = dumpable_behavior()?;
        unistd::initgroups(&self.name, self.gid)?;
        unistd::setresgid(self.gid, self.gid, self.gid)?;
        unistd::setresuid(self.uid, self.uid, self.uid)?;
        Ok(set_dumpable_behavior(shown)?)
    }
}

/// Lets no program file give rights to the process or its children (PR_SET_NO_NEW_PRIVS(2const)),
/// unless a file may have given them to this one: its successor would lose them.
///
/// # Errors
/// Those of prctl(2).
pub fn gain_no_more() -> io::Result<()> {
    let is_given = rustix::thread::capabilities(None).is_ok_and(|it| !it.permitted.is_empty());
    if is_given && !unistd::geteuid().is_root() {
        return Ok(());
    }
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Lets the calling thread, and threads and processes that it starts, write files only beneath
/// `folders` (landlock(7)); files that are open stay open. Returns whether the kernel does so.
///
/// # Errors
/// The kernel refuses the rules.
pub fn write_only_beneath<P: AsRef<Path>>(folders: &[P]) -> io::Result<bool> {
    // The third version was the first to know truncation (Linux 6.2).
    let writes = AccessFs::from_write(ABI::V3);
    let restrict = || {
        let rules = Ruleset::default().handle_access(writes)?.create()?;
        rules.add_rules(path_beneath_rules(folders, writes))?.restrict_self()
    };
    let status = restrict().map_err(io::Error::other)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_and_root_is_none() {
        let check = |text: &str, wanted: &str| {
            let why = User::find(text).expect_err(text).to_string();
            assert!(why.contains(wanted), "{text}: {why}");
        };
        check("root", "expected a user without the rights of root");
        check("no-such-user", "expected a user, found `no-such-user`");
        check("nobody:no-such-group", "expected a group, found `no-such-group`");
        assert!(!User::find("nobody").expect("every machine has it").is_this() || !is_root());
    }

    fn is_root() -> bool {
        unistd::geteuid().is_root()
    }

    #[test]
    fn files_are_written_beneath_a_folder_only() {
        let (allowed, other) = (tempfile::tempdir(), tempfile::tempdir());
        let (allowed, other) = (allowed.expect("a folder"), other.expect("a folder"));
        // The rules hold for this thread only.
        let tried = std::thread::scope(|scope| {
            let live = || {
                let is_held = write_only_beneath(&[allowed.path()]).expect("rules");
                let [inside, outside] = [&allowed, &other].map(|it| it.path().join("a"));
                (is_held, std::fs::write(inside, "x").is_ok(), std::fs::write(outside, "x").is_ok())
            };
            scope.spawn(live).join().expect("no panic")
        });
        let (is_held, inside, outside) = tried;
        assert!(inside && outside != is_held, "{tried:?}");
    }
}
