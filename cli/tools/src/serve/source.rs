//! Live sources of the command line: standard input, named pipes, and other files that are read as
//! they grow.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ::media::live::{Input, Ring, Source};
use anyhow::{Context, Result, anyhow, bail};
use memory::{Placement, Region};
use sys::beneath::{RootDir, Wait};

/// The word for standard input.
pub const STDIN: &str = "-";
/// The default name of standard input.
const STDIN_NAME: &str = "live.ts";
/// `O_NONBLOCK` of open(2), Linux.
const NONBLOCK: i32 = 0o4000;

/// `--source NAME=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFlag {
    /// The name of the title.
    pub name: String,
    /// The input; `-` is standard input.
    pub path: PathBuf,
}

impl FromStr for SourceFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<SourceFlag, String> {
        match text.split_once('=') {
            Some((name, path)) if is_name(name) && !path.is_empty() => {
                Ok(SourceFlag { name: name.to_owned(), path: path.into() })
            }
            _ => Err(format!(
                "expected NAME=PATH, such as cam.ts=/run/cam.fifo or live.ts=-, found `{text}`"
            )),
        }
    }
}

/// Whether a name needs no encoding in a URL.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
}

impl SourceFlag {
    /// A path of the command line that is a live source instead of a file.
    pub fn of(path: &Path) -> Option<SourceFlag> {
        if path == Path::new(STDIN) {
            return Some(SourceFlag { name: STDIN_NAME.to_owned(), path: path.to_path_buf() });
        }
        let is_pipe = path.metadata().is_ok_and(|about| about.file_type().is_fifo());
        let name = path.file_name()?.to_str().filter(|name| is_name(name) && is_pipe)?;
        Some(SourceFlag { name: name.to_owned(), path: path.to_path_buf() })
    }

    /// Opens it.
    fn input(&self) -> Result<Input> {
        let path = &self.path;
        if path == Path::new(STDIN) {
            if io::IsTerminal::is_terminal(&io::stdin()) {
                bail!("expected a transport stream on standard input, found a terminal");
            }
            // Reopened, so that non-blocking mode affects no other process.
            let file = File::options().read(true).custom_flags(NONBLOCK).open("/proc/self/fd/0");
            let file = file.context("cannot read standard input")?;
            return Ok(Input { reader: Box::new(file), ends: true });
        }
        let is_pipe = path.metadata().is_ok_and(|about| about.file_type().is_fifo());
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| anyhow!("expected a file, found {}", path.display()))?;
        // Opening a pipe without a writer must not block.
        let file = RootDir::open(folder.unwrap_or(Path::new(".")))
            .and_then(|root| root.find(name, Wait::May))
            .with_context(|| format!("cannot read {}", path.display()))?;
        // A pipe continues with its next writer.
        Ok(Input { reader: Box::new(file), ends: !is_pipe })
    }
}

/// Opens the sources, with a predecessor's rings if there are any.
///
/// # Errors
/// A source cannot be read, or a ring has another layout.
pub fn open<F: Send + 'static>(
    flags: &[SourceFlag],
    placement: Placement,
    rings: Vec<OwnedFd>,
) -> Result<Vec<Source<F>>> {
    let mut rings = rings.into_iter();
    let open = |flag: &SourceFlag| {
        let ring = match rings.next() {
            Some(ring) => Region::<Ring>::adopt(ring)
                .map_err(|refused| anyhow!("cannot take {} over: {refused}", flag.name))?,
            None => ring(placement)?,
        };
        Ok(Source::new(&flag.name, Arc::new(ring), flag.input()?))
    };
    flags.iter().map(open).collect()
}

/// An empty ring.
fn ring(placement: Placement) -> Result<Region<Ring>> {
    let mut ring = Region::<Ring>::place(placement).context("cannot place a live source")?;
    ring.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_a_name_that_can_stand_in_a_url() {
        let flag: SourceFlag = "cam.ts=/run/cam.fifo".parse().expect("a source");
        assert_eq!(
            (flag.name.as_str(), flag.path.as_path()),
            ("cam.ts", Path::new("/run/cam.fifo"))
        );
        for bad in ["cam", "=x", "cam=", "a/b=x", ".hidden=x", "a b=x"] {
            assert!(bad.parse::<SourceFlag>().is_err(), "{bad}");
        }
        let stdin = SourceFlag::of(Path::new("-")).expect("standard input");
        assert_eq!(stdin.name, "live.ts");
        assert_eq!(SourceFlag::of(Path::new("/etc/passwd")), None);
    }
}
