//! Files in memory, the platform of fuzzers and tests. If they are cold, every lookup and read
//! takes a job, as on a disk whose files are not cached.

use seam::Instant;

use super::{Entry, LookupError, Meta, Platform, Resource};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// The modification time of every file: 6 November 1994, 08:49:37, and 1 ns.
pub const CHANGED_NS: u64 = 784_111_777_000_000_001;

/// The files. One whose content is `forbidden` may not be read.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: BTreeMap<String, Vec<u8>>,
    /// Every lookup and read takes a job.
    pub cold: bool,
    /// Files are this many bytes shorter than their metadata says.
    pub shrunk: usize,
}

impl MemoryFiles {
    /// Files by their paths, with their contents.
    pub fn new<T: AsRef<[u8]>>(files: &[(&str, T)], cold: bool) -> MemoryFiles {
        let owned = |(path, bytes): &(&str, T)| (path.to_string(), bytes.as_ref().to_vec());
        MemoryFiles { files: files.iter().map(owned).collect(), cold, shrunk: 0 }
    }

    /// Adds a file.
    pub fn put(&mut self, path: &str, bytes: Vec<u8>) {
        self.files.insert(path.to_owned(), bytes);
    }

    fn below(&self, path: &str) -> Vec<&str> {
        let prefix = if path == "." { String::new() } else { format!("{path}/") };
        self.files.keys().filter_map(|name| name.strip_prefix(&prefix)).collect()
    }
}

impl Platform for MemoryFiles {
    type File = String;

    fn try_find(
        &self,
        path: &[u8],
        _turn: Option<Instant>,
    ) -> Option<Result<Resource<String>, LookupError>> {
        (!self.cold).then(|| self.find(path))
    }

    fn find(&self, path: &[u8]) -> Result<Resource<String>, LookupError> {
        let path = std::str::from_utf8(path).map_err(|_| LookupError::Absent)?;
        assert!(!path.is_empty() && !path.starts_with('/') && !path.ends_with('/'), "{path:?}");
        match self.files.get(path) {
            Some(bytes) if bytes == b"forbidden" => Err(LookupError::Forbidden),
            Some(bytes) => {
                let meta = Meta { len: bytes.len() as u64, modified_ns: CHANGED_NS, version: 0 };
                Ok(Resource::File(path.to_owned(), meta))
            }
            None if self.below(path).is_empty() => Err(LookupError::Absent),
            None => Ok(Resource::Folder),
        }
    }

    fn read_now(
        &self,
        file: &String,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> Option<io::Result<usize>> {
        (!self.cold).then(|| self.read(file, offset, len, into))
    }

    fn read(&self, file: &String, at: u64, len: usize, into: &mut Vec<u8>) -> io::Result<usize> {
        let bytes = &self.files[file];
        let rest = &bytes[at as usize..bytes.len() - self.shrunk];
        // Reads less than requested, as any read may.
        let read = &rest[..rest.len().min(len.min(10_000))];
        into.extend_from_slice(read);
        Ok(read.len())
    }

    fn list(&self, path: &[u8]) -> Result<Vec<Entry>, LookupError> {
        let path = std::str::from_utf8(path).map_err(|_| LookupError::Absent)?;
        let mut found: Vec<Entry> = Vec::new();
        for name in self.below(path) {
            let (name, rest) = name.split_once('/').unwrap_or((name, ""));
            let len = rest.is_empty().then_some(7);
            if found.iter().all(|entry| entry.name != name.as_bytes()) {
                found.push(Entry { name: name.into(), len, modified_ns: CHANGED_NS });
            }
        }
        Ok(found)
    }

    fn compute(&self, _time: Duration) {}

    fn sleep(&self, _time: Duration) {}
}
