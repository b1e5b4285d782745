//! Files that sessions send. The launcher opens them and names them by number, or a session opens
//! them later and lends them to the engine. The kernel sends them from its page cache, or the
//! engine reads them piece by piece.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use seam::{AssetId, Source};

/// The files of a server. The list is fixed before the first worker starts.
#[derive(Debug, Default)]
pub struct Assets {
    files: Vec<File>,
}

impl Assets {
    /// Adds an open file and returns its number.
    pub fn add(&mut self, file: File) -> AssetId {
        self.files.push(file);
        AssetId(self.files.len() as u32 - 1)
    }

    /// The number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The file of this name, if there is one.
    #[must_use]
    pub fn asset(&self, asset: AssetId) -> Option<&File> {
        self.files.get(asset.0 as usize)
    }

    /// The file itself.
    ///
    /// # Errors
    /// There is no file of this number.
    pub fn file<'a>(&'a self, source: &'a Source) -> io::Result<BorrowedFd<'a>> {
        match source {
            Source::Open(file) => Ok(file.as_fd()),
            Source::Asset(asset) => {
                self.files.get(asset.0 as usize).map(AsFd::as_fd).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::NotFound, format!("no asset {}", asset.0))
                })
            }
        }
    }
}
