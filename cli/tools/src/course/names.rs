//! `roundhouse names DIR`: links to this program under the names of the course.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// The names under which this program acts as one of the course's.
pub const NAMES: [&str; 3] = ["stockserver", "stockclient", "multiclient"];

/// The arguments of `names`.
#[derive(clap::Args)]
pub struct Args {
    /// The directory for the links
    dir: PathBuf,
}

/// The file that is at a link's path already.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// A link to this program.
    Ours,
    /// A link to another copy of this program, or to its former path.
    Former(PathBuf),
}

/// Makes the links, all or none, and prints one line for each (stdout).
///
/// # Errors
/// `dir` is no directory, or one of the names belongs to a file of another program.
pub fn run(args: &Args) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    for line in link(&args.dir, &program)? {
        println!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the links in `dir` to `program`, and returns a line for each.
fn link(dir: &Path, program: &Path) -> Result<Vec<String>> {
    if !dir.is_dir() {
        bail!("expected a directory, found none at {}; make it first: mkdir -p", dir.display());
    }
    let links = NAMES.map(|name| dir.join(name));
    // All paths are checked before the first link is made, so that a refusal changes nothing.
    let found: Vec<Found> = links.iter().map(|at| look(at, program)).collect::<Result<_>>()?;
    let mut lines = Vec::new();
    for (at, found) in links.iter().zip(found) {
        let what = match found {
            Found::Ours => "was there already".to_owned(),
            Found::Nothing => {
                symlink(program, at).with_context(|| format!("cannot make {}", at.display()))?;
                "made".to_owned()
            }
            Found::Former(former) => {
                replace(at, program).with_context(|| format!("cannot replace {}", at.display()))?;
                format!("led to {} before", former.display())
            }
        };
        lines.push(format!("{} -> {}: {what}", at.display(), program.display()));
    }
    Ok(lines)
}

/// Checks a link's path.
///
/// # Errors
/// The name belongs to a file of another program.
fn look(at: &Path, program: &Path) -> Result<Found> {
    let refuse = |what: String| {
        bail!("{} is {what}, which is not ours to replace; move it away first", at.display())
    };
    match fs::symlink_metadata(at) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", at.display())),
        Ok(data) if data.is_symlink() => {
            let target =
                fs::read_link(at).with_context(|| format!("cannot read {}", at.display()))?;
            if target == program {
                Ok(Found::Ours)
            } else if target.file_name() == program.file_name() {
                Ok(Found::Former(target))
            } else {
                refuse(format!("a link to {}", target.display()))
            }
        }
        Ok(data) if data.is_dir() => refuse("a directory".to_owned()),
        Ok(_) => refuse("a file".to_owned()),
    }
}

/// Replaces an old link by a new one, atomically: the path always exists.
fn replace(at: &Path, program: &Path) -> std::io::Result<()> {
    let mut beside = at.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    symlink(program, &beside)?;
    fs::rename(&beside, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Folder;

    #[test]
    fn made_once_found_twice() {
        let folder = Folder::new();
        let program = Path::new("/opt/bin/roundhouse");
        let lines = link(folder.path(), program).expect("an empty directory");
        assert!(lines.len() == 3 && lines.iter().all(|line| line.ends_with(": made")), "{lines:?}");
        for name in NAMES {
            assert_eq!(fs::read_link(folder.path().join(name)).expect("a link"), program);
        }
        let lines = link(folder.path(), program).expect("our own links");
        assert!(lines.iter().all(|line| line.ends_with(": was there already")), "{lines:?}");
    }

    #[test]
    fn a_link_to_another_copy_is_moved() {
        let folder = Folder::new();
        link(folder.path(), Path::new("/old/roundhouse")).expect("an empty directory");
        let lines = link(folder.path(), Path::new("/new/roundhouse")).expect("our own links");
        assert!(lines[0].ends_with("/new/roundhouse: led to /old/roundhouse before"), "{lines:?}");
        let target = fs::read_link(folder.path().join("multiclient")).expect("a link");
        assert_eq!(target, Path::new("/new/roundhouse"));
        assert_eq!(fs::read_dir(folder.path()).expect("our directory").count(), 3);
    }

    #[test]
    fn what_is_not_ours_stays_and_nothing_is_made() {
        let program = Path::new("/opt/bin/roundhouse");
        let folder = Folder::new();
        let place = folder.path().join("multiclient");
        let check = |what: &str| {
            let error = link(folder.path(), program).expect_err("refused").to_string();
            assert!(error.contains(what) && error.contains("move it away"), "{error}");
            assert!(!folder.path().join("stockserver").exists(), "all or none");
        };
        fs::write(&place, "mine").expect("a file");
        check("a file");
        assert_eq!(fs::read(&place).expect("the file"), b"mine");
        fs::remove_file(&place).expect("our own file");
        symlink("/usr/bin/true", &place).expect("a link");
        check("a link to /usr/bin/true");
        fs::remove_file(&place).expect("our own link");
        fs::create_dir(&place).expect("a directory");
        check("a directory");
        let error = link(&folder.path().join("absent"), program).expect_err("refused").to_string();
        assert!(error.contains("mkdir"), "{error}");
    }
}
