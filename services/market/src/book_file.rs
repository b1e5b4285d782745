//! `stock.txt` on the disk: its lock, its text, and its saves.
//!
//! The supervisor owns the file: it opens it before workers start, and saves through
//! `market_store.rs`. A save compares the file's stamp (inode, size, times) with the one of the
//! last read or write. If they are equal, the amounts left are written to a temporary file that
//! replaces the book. If they differ, a person has edited the book: it is left alone, and the
//! market is saved next to it. The lock keeps out a second server, whose saves would undo these
//! orders.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engines::{Handover, Refused};
use language::{eprintln, info};
use seam::{SHARDS_MAX, WorkerId};
use stats::fnv1a;
use stock::{CAPACITY, Market, Sheet};
use sys::claim::{self, Claim};

/// The longest file: a full market with a comment of 200 bytes per line, or in UTF-16.
const BYTES_MAX: u64 = 256 << 20;
/// The time that a server that is just ending may keep the file.
const PATIENCE: Duration = Duration::from_millis(500);

/// A book that one server at a time may save.
pub struct BookFile {
    /// Without symbolic links.
    path: PathBuf,
    /// The file as it was read or written last.
    sheet: Sheet,
    /// The market's row of each stock in the sheet; `None` if a person has added the stock.
    rows: Vec<Option<u32>>,
    /// The file's identity and times as it was read or written last; `None` if it is not there.
    stamp: Option<Stamp>,
    /// `None` where the file system has no locks or cannot be written.
    claim: Option<Claim>,
    /// The amounts left, by the market's row.
    lefts: Vec<u64>,
}

/// Changes whenever the file does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_ns: (i64, i64),
    modified_ns: (i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Stamp {
        Stamp {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.size(),
            changed_ns: (about.ctime(), about.ctime_nsec()),
            modified_ns: (about.mtime(), about.mtime_nsec()),
        }
    }
}

impl BookFile {
    /// Reads the book and locks it against other servers; a predecessor shares its lock. Says on
    /// stderr if the book cannot be locked or saved.
    ///
    /// # Errors
    /// It is no book, or another server has it.
    pub fn open(given: &Path, handover: Option<&Handover>) -> Result<BookFile> {
        let name = given.display();
        let about = fs::metadata(given).with_context(|| {
            format!("cannot read {name}: expected a file of lines `ID LEFT PRICE`")
        })?;
        if !about.is_file() || about.len() > BYTES_MAX {
            let found = match about.is_file() {
                true => format!("one of {} bytes", about.len()),
                false => "a directory, a device or a pipe".to_owned(),
            };
            return Err(Refused(format!(
                "{name}: expected a regular file of lines `ID LEFT PRICE` with at most \
                 {BYTES_MAX} bytes, found {found}"
            ))
            .into());
        }
        let path = fs::canonicalize(given).with_context(|| format!("cannot resolve {name}"))?;
        let inherited =
            handover.map(Handover::others).transpose()?.and_then(|fds| fds.into_iter().next());
        let claim = match inherited {
            Some(fd) => Some(Claim::inherit(fd, &lock(&path)?)?),
            None => claim(&path)?,
        };
        if let Err(error) = sys::file::probe(&path) {
            eprintln!(
                "cannot save {name}: {error}; orders stay in memory, and are lost at the end \
                 unless this is mended"
            );
        } else if claim.is_some() && handover.is_none() {
            recover(&path)?;
        }
        language::debug!("reading {}", path.display());
        let (stamp, bytes) = read(&path).with_context(|| format!("cannot read {name}"))?;
        let sheet = Sheet::parse(&bytes, CAPACITY).map_err(|bad| anyhow!("{name}:{bad}"))?;
        let (rows, lefts) = (Vec::new(), Vec::new());
        Ok(BookFile { path, sheet, rows, stamp: Some(stamp), claim, lefts })
    }

    /// The bytes of the file as it was read or written last.
    pub fn bytes(&self) -> Vec<u8> {
        self.sheet.bytes()
    }

    /// The descriptor that a successor inherits with the lock.
    pub fn lock(&self) -> Option<BorrowedFd<'_>> {
        self.claim.as_ref().map(AsFd::as_fd)
    }

    /// Belongs to `market` from now on, which holds this book, or more recent amounts if it was
    /// handed over.
    pub fn bind(&mut self, market: &Market, handover: Option<&Handover>) {
        let digest = fnv1a(self.bytes());
        if handover.is_none() {
            market.note_file(digest);
        } else if !market.is_noted(digest) {
            info!(
                "{} was changed by hand before this server took over: comments, prices and new \
                 stocks stay, the amounts left are those of the market",
                self.path.display()
            );
        }
        self.place(market);
    }

    fn place(&mut self, market: &Market) {
        let ids = (0..market.len() as u32).map(|row| (market.entry(row).id, row));
        let ids: HashMap<u32, u32> = ids.collect();
        self.rows = self.sheet.entries().map(|entry| ids.get(&entry.id).copied()).collect();
    }

    /// Writes the amounts left into the file, or next to it if a person has changed the file.
    /// Returns the market's version that the file now holds.
    ///
    /// # Errors
    /// The fault and its remedy. The orders are in memory only, or next to the file.
    pub fn save(&mut self, market: &Market) -> Result<u64, String> {
        let name = self.path.display().to_string();
        match fs::metadata(&self.path).map(|about| Stamp::of(&about)) {
            Ok(stamp) if Some(stamp) == self.stamp => {}
            Ok(_) => {
                if let Err(reason) = self.adopt(market) {
                    return Err(self.save_beside(market, &reason));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                info!("{name} was removed while it was served; it is written again");
                self.stamp = None;
            }
            Err(error) => return Err(format!("cannot save {name}: {error}; check its directory")),
        }
        let (version, next) = self.current(market);
        if self.stamp.is_none() || next != self.sheet {
            let bytes = next.bytes();
            market.note_file(fnv1a(&bytes));
            sys::file::replace(&self.path, &bytes).map_err(|error| {
                market.note_file(fnv1a(self.bytes()));
                format!(
                    "cannot save {name}: {error}; until this is mended, a crash loses the orders \
                     since the last save"
                )
            })?;
            self.sheet = next;
            // A person may have written the file again already: that is no stamp of ours.
            let placed = read(&self.path).ok().filter(|(_, now)| *now == bytes);
            self.stamp = placed.map(|(stamp, _)| stamp);
        }
        Ok(version)
    }

    /// The file as it should be now, and the market's version.
    fn current(&mut self, market: &Market) -> (u64, Sheet) {
        // The supervisor holds the last slot of the board; no worker ever does.
        let version = market.copy_for_file(WorkerId::new(SHARDS_MAX - 1, 1), &mut self.lefts);
        let left = |row: u32| self.lefts[row as usize];
        let sheet = self.sheet.with_lefts(|index, entry| self.rows[index].map_or(entry.left, left));
        (version, sheet)
    }

    /// Takes over a file that a server of this market has written.
    fn adopt(&mut self, market: &Market) -> Result<(), String> {
        let (stamp, bytes) = read(&self.path).map_err(|error| error.to_string())?;
        if !market.is_noted(fnv1a(&bytes)) {
            return Err("it was changed by hand while it was served".to_owned());
        }
        self.sheet = Sheet::parse(&bytes, CAPACITY).map_err(|bad| bad.to_string())?;
        self.stamp = Some(stamp);
        self.place(market);
        Ok(())
    }

    /// Saves into a file next to the book, and returns the reason in full.
    fn save_beside(&mut self, market: &Market, reason: &str) -> String {
        let (name, mut beside) =
            (self.path.display().to_string(), self.path.clone().into_os_string());
        beside.push(".served");
        let beside = PathBuf::from(beside);
        let (_, sheet) = self.current(market);
        let rescued = match sys::file::replace(&beside, &sheet.bytes()) {
            Ok(()) => format!("the market is saved in {}", beside.display()),
            Err(error) => format!("the market is only in memory ({error})"),
        };
        format!(
            "cannot save {name}: {reason}; restore it, or stop the server and merge the two; until \
             then {rescued}"
        )
    }
}

/// Locks the book; `None` after a word on stderr if that is impossible here.
fn claim(path: &Path) -> Result<Option<Claim>> {
    match Claim::take(&lock(path)?, PATIENCE) {
        Ok(claim) => Ok(Some(claim)),
        Err(held @ claim::Unclaimed::Held { .. }) => Err(Refused(format!(
            "{}: {held} serves it already; two servers would overwrite each other's orders, so \
             stop that one, hand over with SIGUSR2, or serve a copy",
            path.display()
        ))
        .into()),
        Err(claim::Unclaimed::Failed(error)) => {
            eprintln!(
                "{} cannot be locked ({error}): make sure that no other server saves it",
                path.display()
            );
            Ok(None)
        }
    }
}

fn lock(path: &Path) -> io::Result<PathBuf> {
    sys::file::beside_as(path, "lock")
}

/// Removes what a killed server has left, and says so.
fn recover(path: &Path) -> io::Result<()> {
    let count = sys::file::recover(path)?;
    if count > 0 {
        info!("{}: removed {count} unfinished files of a killed server", path.display());
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<(Stamp, Vec<u8>)> {
    // Before the bytes: a change meanwhile makes the stamp differ at the next save.
    let stamp = Stamp::of(&fs::metadata(path)?);
    Ok((stamp, fs::read(path)?))
}
