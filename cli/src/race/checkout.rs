//! Two commits of a repository as two folders: checked out, built, and removed afterwards.

use anyhow::{Context, Result, bail};
use language::info;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Lines of a failed build's output that are shown.
const LINES: usize = 20;

/// A side of `ab --git`.
pub struct Side {
    /// The folder of this side that stands for the present one.
    pub folder: PathBuf,
    /// The revision as it was named, and its commit.
    pub title: String,
}

/// Folders of two commits; dropping it removes them.
pub struct Checkouts {
    /// The old side and the new one.
    pub sides: [Side; 2],
    /// The repository's folder, and the worktrees in it that this created.
    top: PathBuf,
    made: Vec<PathBuf>,
    room: TempDir,
}

impl Checkouts {
    /// Checks out the commits of `OLD..NEW`, or of `OLD...NEW` those of a merge request: where NEW
    /// left OLD, and NEW. `OLD` alone compares with the present folder as it is.
    pub fn of(range: &str) -> Result<Checkouts> {
        let here = std::env::current_dir().context("cannot find the present folder")?;
        Checkouts::within(&here, range)
    }

    fn within(here: &Path, range: &str) -> Result<Checkouts> {
        let top = PathBuf::from(git(here, &["rev-parse", "--show-toplevel"])?);
        let inside = git(here, &["rev-parse", "--show-prefix"])?;
        let (old, new) = match (range.split_once("..."), range.split_once("..")) {
            (Some((old, new)), _) => (git(here, &["merge-base", old, new])?, Some(new)),
            (None, Some((old, new))) => (old.to_string(), Some(new)),
            (None, None) => (range.to_string(), None),
        };
        let room = tempfile::Builder::new().prefix("roundhouse-git").tempdir();
        let room = room.context("cannot make a temporary folder")?;
        let present = Side { folder: here.to_path_buf(), title: "the present folder".to_string() };
        let sides = [Side { title: old, ..present.copy() }, present.copy()];
        let mut all = Checkouts { sides, top, made: Vec::new(), room };
        if let Some(new) = new {
            all.sides[1].title = if new.is_empty() { "HEAD" } else { new }.to_string();
        }
        for (at, name) in ["old", "new"].iter().enumerate().take(1 + usize::from(new.is_some())) {
            let commit = format!("{}^{{commit}}", all.sides[at].title);
            let commit =
                git(here, &["rev-parse", "--verify", "--quiet", &commit]).with_context(|| {
                    format!("{name}: no commit is called `{}`", all.sides[at].title)
                })?;
            let folder = all.room.path().join(name);
            let place = folder.display().to_string();
            git(&all.top, &["worktree", "add", "--quiet", "--detach", &place, &commit])?;
            all.made.push(folder.clone());
            let short = commit.get(..9).unwrap_or(&commit);
            if !commit.starts_with(&all.sides[at].title) {
                all.sides[at].title += &format!(", {short}");
            }
            all.sides[at].folder = folder.join(&inside);
        }
        Ok(all)
    }

    /// Runs the build command of a shell in both folders.
    pub fn build(&self, command: &str) -> Result<()> {
        for (name, side) in ["old", "new"].iter().zip(&self.sides) {
            info!("{name} ({}): {command}", side.title);
            let shell = format!("({command}\n) 2>&1");
            let built = Command::new("sh").args(["-c", &shell]).current_dir(&side.folder).output();
            let built = built.context("cannot start a shell for the build")?;
            if !built.status.success() {
                let text = String::from_utf8_lossy(&built.stdout);
                let lines: Vec<&str> = text.lines().collect();
                let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
                let how = built.status;
                bail!("{name} ({}): the build `{command}` failed ({how}):\n{end}", side.title);
            }
        }
        Ok(())
    }
}

impl Side {
    fn copy(&self) -> Side {
        Side { folder: self.folder.clone(), title: self.title.clone() }
    }
}

impl Drop for Checkouts {
    fn drop(&mut self) {
        for folder in &self.made {
            // A folder that stays is named by `git worktree list`.
            let place = folder.display().to_string();
            let _ = git(&self.top, &["worktree", "remove", "--force", &place]);
        }
    }
}

fn git(folder: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output();
    let output = output.context("cannot run git; install it, or leave out --git")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("git {}: {}", words.join(" "), why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_become_folders_and_go_again() {
        let room = tempfile::tempdir().expect("a temporary folder");
        let run = |words: &[&str]| git(room.path(), words).expect("git runs");
        if Command::new("git").arg("--version").output().is_err() {
            return;
        }
        run(&["init", "--quiet", "-b", "main"]);
        for text in ["one", "two"] {
            std::fs::write(room.path().join("word"), text).expect("a file");
            run(&["add", "."]);
            let user = ["-c", "user.name=a", "-c", "user.email=a@b"];
            run(&[&user[..], &["commit", "--quiet", "-m", text]].concat());
        }
        let found = Checkouts::within(room.path(), "HEAD~1..main").expect("two commits");
        let word = |at: usize| std::fs::read_to_string(found.sides[at].folder.join("word"));
        assert_eq!((word(0).expect("old"), word(1).expect("new")), ("one".into(), "two".into()));
        found.build("grep -q o word").expect("both have an o");
        let why = found.build("echo not here; grep one word").expect_err("new has no `one`");
        assert!(why.to_string().contains("new (main, ") && why.to_string().ends_with("not here"));
        let folders = found.sides.each_ref().map(|side| side.folder.clone());
        drop(found);
        assert!(folders.iter().all(|folder| !folder.exists()));
        assert_eq!(run(&["worktree", "list"]).lines().count(), 1);
        let one = Checkouts::within(room.path(), "HEAD~1").expect("a commit");
        assert_eq!(one.sides[1].folder, room.path());
        let why = Checkouts::within(room.path(), "no..main").err().expect("no such commit");
        assert!(format!("{why:#}").contains("no commit is called `no`"), "{why:#}");
    }
}
