//! Mappings of files for senders that name pages to the kernel: the server's files, and files
//! opened at run time.
//!
//! A mapping costs as much as a hundred packets, so it is kept as long as the file is in use. The
//! bytes are never read here, because the file may have become shorter.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use seam::{Packet, Payload, Source};
use sys::mapped::MappedFile;
use sys::udp::Filling;

use super::outlet::Outlet;

/// The number of bursts between two searches for unused mappings.
const SWEEP_EVERY: u32 = 4096;

/// Mappings of files opened at run time, as long as the file is in use.
#[derive(Default)]
pub struct Maps {
    open: HashMap<usize, (Weak<OwnedFd>, Option<MappedFile>)>,
    bursts: u32,
}

impl Maps {
    /// Maps the files of packets that were opened at run time.
    pub fn prepare(&mut self, packets: &[Packet]) {
        self.bursts += 1;
        if self.bursts.is_multiple_of(SWEEP_EVERY) {
            self.open.retain(|_, (file, _)| file.strong_count() > 0);
        }
        let mut last = 0;
        for packet in packets {
            let Payload::File(Source::Open(file), _) = &packet.payload else { continue };
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

    /// Whether the bytes of `packet` exist, judging by the file's length.
    pub fn has(&self, outlet: &Outlet<'_>, packet: &Packet) -> bool {
        match &packet.payload {
            Payload::File(source, range) => {
                range.is_empty() || self.of(outlet, source).is_some_and(|it| range.end <= it.len())
            }
            _ => true,
        }
    }

    /// Appends the bytes after the header to the datagram.
    pub fn write_payload<'d>(
        &'d self,
        outlet: &'d Outlet<'_>,
        filling: &mut Filling<'_, 'd>,
        packet: &'d Packet,
    ) {
        match &packet.payload {
            Payload::None => {}
            Payload::Shared(bytes, range) => filling.piece(&bytes[range.clone()]),
            Payload::File(source, range) => {
                if let Some(file) = self.of(outlet, source) {
                    filling.mapped(file, range.clone());
                }
            }
        }
    }
}
