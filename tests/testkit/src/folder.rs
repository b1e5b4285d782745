//! Temporary folders and files of one test.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder that is removed with its handle.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// An empty folder with a separate name.
    #[expect(clippy::new_without_default, reason = "it makes a folder, which no default does")]
    pub fn new() -> Folder {
        Folder(tempfile::Builder::new().prefix("roundhouse-").tempdir().expect("a folder"))
    }

    /// A folder with one file, and the path of that file.
    pub fn with(name: &str, bytes: impl AsRef<[u8]>) -> (Folder, PathBuf) {
        let folder = Folder::new();
        let file = folder.file(name, bytes);
        (folder, file)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Its path as an argument.
    pub fn text_path(&self) -> &str {
        self.path().to_str().expect("a temporary path is text")
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).expect("a temporary file");
        path
    }

    /// Makes a certificate of `name` and of all names below it: the paths of the files `NAME.pem`
    /// and `NAME.key`, as arguments.
    pub fn certify(&self, name: &str) -> [String; 2] {
        let names = vec![name.to_owned(), format!("*.{name}")];
        let made = rcgen::generate_simple_self_signed(names).expect("a good name");
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        [("pem", cert), ("key", key)]
            .map(|(ending, text)| self.file(&format!("{name}.{ending}"), text))
            .map(|path| path.display().to_string())
    }

    /// The contents of a file; empty if it is not there.
    pub fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The names in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("our folder");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("our folder").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A file with these bytes and without a name, which ends with its last descriptor.
pub fn nameless(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for a temporary file");
    file
}
