//! The files of a package, and the archive of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files by path, each with its permissions.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<String, (u32, Vec<u8>)>);

impl Files {
    /// Adds a file, or a folder if the path ends with a slash. The folders above need no call.
    pub fn add(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.0.insert(path.to_owned(), (mode, bytes));
    }

    /// All files in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, &[u8])> {
        self.0.iter().map(|(path, (mode, bytes))| (path.as_str(), *mode, bytes.as_slice()))
    }

    /// The folders above the files, each before those in it.
    fn folders(&self) -> BTreeSet<&str> {
        let above = |path| Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        let all = self.0.keys().flat_map(|path| above(path.as_str()));
        all.filter(|path| !path.is_empty() && !self.0.contains_key(&format!("{path}/"))).collect()
    }

    /// A tar archive that belongs to root.
    pub fn tar(&self, time: u64) -> anyhow::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let header = |kind, mode, size: usize| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(size as u64);
            header.set_mtime(time);
            header.set_uid(0);
            header.set_gid(0);
            header
        };
        for folder in self.folders() {
            let mut header = header(tar::EntryType::Directory, 0o755, 0);
            archive.append_data(&mut header, format!("{folder}/"), &[][..])?;
        }
        for (path, mode, bytes) in self.iter() {
            let kind = match path.ends_with('/') {
                true => tar::EntryType::Directory,
                false => tar::EntryType::Regular,
            };
            let mut header = header(kind, mode, bytes.len());
            archive.append_data(&mut header, path, bytes)?;
        }
        Ok(archive.into_inner()?)
    }
}
