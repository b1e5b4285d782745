//! A program without the feature `encodings` reads UTF-8 alone.

use super::{Decoded, Encoding, Undecodable};

/// The encodings that this program reads.
pub const EXPECTED: &str = "UTF-8, because this program is built without the feature `config`";

/// Nothing is written in the code page, because nothing was read from it.
pub fn cp949(_text: &str) -> Vec<u8> {
    unreachable!("only UTF-8 is decoded")
}

/// Refuses text that is not UTF-8.
pub fn by_table(
    bytes: &[u8],
    _encoding: Encoding,
    mark: usize,
) -> Result<Decoded<'static>, Undecodable> {
    let valid = std::str::from_utf8(bytes).err().map_or(0, |bad| bad.valid_up_to());
    let offset = if mark > 0 { 0 } else { valid };
    Err(Undecodable { encoding: Encoding::Utf8, offset })
}
