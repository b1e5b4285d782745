//! Files that sessions send. The launcher opens them and names them by number, or a session opens
//! them later and lends them to the engine. The kernel sends them from its page cache, or the
//! engine reads them piece by piece.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use seam::{AssetId, Out, Source};
use sys::beneath::{Wait, read_at};

/// The files of a server. The list is fixed before the first worker starts.
#[derive(Debug, Default)]
pub struct Assets {
    files: Vec<File>,
}

/// The size of one read of a file, in bytes.
const PIECE: usize = 64 * 1024;

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

    /// If the front of `out` is a file, reads its next piece into memory.
    ///
    /// # Errors
    /// The file is unknown, cannot be read or is shorter than the range. The connection can only be
    /// ended, because its length was promised.
    pub fn load(&self, out: &mut Out) -> io::Result<()> {
        let Some((source, range)) = out.front_file() else { return Ok(()) };
        let len = (range.end - range.start).min(PIECE as u64) as usize;
        let mut bytes = Vec::with_capacity(len);
        if read_at(self.file(source)?, range.start, len, Wait::May, &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.load_front(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_piece_by_piece_and_a_short_one_is_an_error() {
        let content: Vec<u8> = (0..PIECE + 10).map(|byte| byte as u8).collect();
        let mut assets = Assets::default();
        let id = assets.add(testkit::nameless(&content));
        let limits = seam::Limits { input_max: 1, output_high: 1, output_low: 0, sessions_max: 1 };
        let mut out = Out::new(&limits);
        out.file(id, 5..content.len() as u64);
        let mut read = Vec::new();
        while out.waiting() > 0 {
            assets.load(&mut out).expect("long enough");
            let Some(seam::Part::Bytes(bytes)) = out.take() else { panic!("loaded into memory") };
            read.extend_from_slice(&bytes);
        }
        assert_eq!(read, content[5..]);
        out.file(id, 0..content.len() as u64 + 1);
        for _ in 0..2 {
            assets.load(&mut out).expect("so much is there");
            out.take();
        }
        assert!(assets.load(&mut out).is_err());
        out.file(AssetId(9), 0..1);
    }
}
