//! Mappings of files for senders that send pages: the server's files, and files opened at run time.
//!
//! A mapping costs as much as a hundred packets, so it is kept as long as the file is in use. The
//! bytes are never read here, because the file may have become shorter.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use seam::Source;
use sys::mapped::MappedFile;

use super::super::outlet::Outlet;

/// The number of bursts between two searches for unused mappings.
const SWEEP_EVERY: u32 = 4096;

/// Mappings of files opened at run time, as long as the file is in use.
#[derive(Default)]
pub struct Maps {
    open: HashMap<usize, (Weak<OwnedFd>, Option<MappedFile>)>,
    bursts: u32,
}

impl Maps {
    /// Maps the files of a burst that were opened at run time.
    pub fn prepare<'s>(&mut self, sources: impl Iterator<Item = &'s Source>) {
        self.bursts += 1;
        if self.bursts.is_multiple_of(SWEEP_EVERY) {
            self.open.retain(|_, (file, _)| file.strong_count() > 0);
        }
        let mut last = 0;
        for source in sources {
            let Source::Open(file) = source else { continue };
            let key = Arc::as_ptr(file).addr();
            if key == last {
                continue;
            }
            last = key;
            // The entry holds the file, so another file cannot have its address.
            self.open.entry(key).or_insert_with(|| {
                let copy = file.try_clone().map(File::from);
                (Arc::downgrade(file), copy.and_then(|file| MappedFile::new(&file)).ok())
            });
        }
    }

    /// The mapping of a file, if it has one.
    pub fn of<'m>(&'m self, outlet: &'m Outlet<'_>, source: &Source) -> Option<&'m MappedFile> {
        match source {
            Source::Asset(_) => outlet.files.mapped(source),
            Source::Open(file) => self.open.get(&Arc::as_ptr(file).addr())?.1.as_ref(),
        }
    }
}
