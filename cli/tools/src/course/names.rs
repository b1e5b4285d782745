//! `roundhouse names DIR`: links to this program under the names of the course.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
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

/// Makes the links, all or none, and prints one line for each (stdout).
///
/// # Errors
/// `dir` is not a directory, or one of the names belongs to a file of another program.
pub fn run(args: &Args) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    if !args.dir.is_dir() {
        let dir = args.dir.display();
        bail!("expected a directory, found none at {dir}; make it first: mkdir -p");
    }
    let links = NAMES.map(|name| args.dir.join(name));
    // All paths are checked before the first link is made, so that a refusal changes nothing.
    for link in &links {
        let is_ours =
            fs::read_link(link).is_ok_and(|target| target.file_name() == program.file_name());
        if link.symlink_metadata().is_ok() && !is_ours {
            bail!("{} is not ours to replace; move it away first", link.display());
        }
    }
    for link in &links {
        let what = match fs::read_link(link) {
            Ok(target) if target == program => "was there already",
            former => {
                if former.is_ok() {
                    fs::remove_file(link)
                        .with_context(|| format!("cannot replace {}", link.display()))?;
                }
                symlink(&program, link)
                    .with_context(|| format!("cannot make {}", link.display()))?;
                "made"
            }
        };
        println!("{} -> {}: {what}", link.display(), program.display());
    }
    Ok(ExitCode::SUCCESS)
}
