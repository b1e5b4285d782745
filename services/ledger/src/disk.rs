//! Files and names as the log needs them: a folder, or a simulated disk in tests.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A folder of files. A change is certain to survive a power cut only after the sync of its file,
/// and a name only after [`Disk::sync_names`].
pub trait Disk {
    /// An open file.
    type File: DiskFile;

    /// All names, in no order.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Makes an empty file, in place of one that is there.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Gives a file another name, in place of a file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file of a [`Disk`].
pub trait DiskFile {
    /// All bytes.
    fn read(&self) -> io::Result<Vec<u8>>;
    /// Writes `bytes` at offset `at`, and lengthens the file if need be.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes the bytes durable.
    ///
    /// # Errors
    /// The bytes written since the last sync may be lost, whatever a later sync says.
    fn sync(&mut self) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An existing folder.
    pub fn at(path: impl Into<PathBuf>) -> Folder {
        Folder(path.into())
    }

    /// The folder at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// Those of making it and of syncing the folder that holds it.
    pub fn make(path: &Path) -> io::Result<Folder> {
        match fs::create_dir(path) {
            Ok(()) => {
                let parent = path.parent().filter(|parent| *parent != Path::new(""));
                File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) => return Err(error),
        }
        Ok(Folder::at(path))
    }
}

impl Disk for Folder {
    type File = File;

    fn names(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().ok());
        fs::read_dir(&self.0)?.filter_map(|entry| name(entry).transpose()).collect()
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let path = self.0.join(name);
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        opened.or_else(|error| match error.kind() {
            // Such a log can still be read.
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => File::open(path),
            _ => Err(error),
        })
    }

    fn create(&self, name: &str) -> io::Result<File> {
        // As private as the book (book_file): the log tells more than the book does.
        let mut options = OpenOptions::new();
        options
            .mode(0o600)
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.0.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

impl DiskFile for File {
    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.metadata()?.len()).unwrap_or(usize::MAX)];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
