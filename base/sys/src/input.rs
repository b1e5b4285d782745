//! Whole files of users, read with a bound: a device such as `/dev/zero`, or the wrong file, must
//! not take all memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The bound for files that are written by hand: plans, lists, certificates.
pub const SMALL: u64 = 64 << 20;
/// The bound for files that programs write: recordings, maps, receipts.
pub const LARGE: u64 = 1 << 30;

/// The content of a file of at most `most` bytes.
///
/// # Errors
/// Those of opening and reading; `FileTooLarge` for a longer one, which is not read if its length
/// is known.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    if len <= most {
        (&mut file).take(most + 1).read_to_end(&mut bytes)?;
    }
    if len > most || bytes.len() as u64 > most {
        let words = format!("expected at most {most} bytes, found more; is this the right file?");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(bytes)
}

/// As [`read`], for text.
///
/// # Errors
/// As [`read`]; `InvalidData` if it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "expected UTF-8; is this the right file?")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_refused() {
        let path = std::env::temp_dir().join(format!("roundhouse-input-{}", std::process::id()));
        std::fs::write(&path, b"12345\xff").unwrap();
        assert_eq!(read(&path, 6).unwrap(), b"12345\xff");
        assert_eq!(read(&path, 5).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_text(&path, 6).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).unwrap();
        let endless = read(Path::new("/dev/zero"), 1 << 16).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_text(Path::new("/dev/null"), 0).unwrap(), "");
        assert_eq!(read(&path, 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
