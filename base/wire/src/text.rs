//! Whole text files as UTF-8, from any common encoding.
//!
//! The order in which encodings are tried:
//!
//! 1. A byte order mark decides: UTF-8 (`EF BB BF`), UTF-16LE (`FF FE`), UTF-16BE (`FE FF`).
//! 2. Without one, NUL bytes reveal UTF-16, because digits, blanks and newlines have a NUL as their
//!    high byte. If at least an eighth of the first [`SAMPLE`] bytes are NUL, and three quarters of
//!    those lie at odd offsets, the text is little-endian; at even offsets, big-endian. Text in
//!    UTF-8 or CP949 has no NUL, and a stray one is too few.
//! 3. Otherwise UTF-8, if all of it is valid.
//! 4. Otherwise CP949, the superset of EUC-KR that Korean Windows writes.
//!
//! The last step may surprise: nearly every pair of high bytes is some CP949 syllable, so a broken
//! UTF-8 file may decode to nonsense instead of being refused. The result therefore names the
//! encoding.

#[cfg(feature = "encodings")]
mod table;
#[cfg(not(feature = "encodings"))]
#[path = "text/no_table.rs"]
mod table;

use std::borrow::Cow;

use self::table::{EXPECTED, by_table, cp949};

/// How many bytes decide whether a file without a mark is UTF-16.
pub const SAMPLE: usize = 1024;

/// The recognised encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum Encoding {
    /// UTF-8, with or without a mark. ASCII is part of it.
    #[display("UTF-8")]
    Utf8,
    /// UTF-16, low byte first.
    #[display("UTF-16LE")]
    Utf16Le,
    /// UTF-16, high byte first.
    #[display("UTF-16BE")]
    Utf16Be,
    /// Microsoft code page 949, also called UHC; contains EUC-KR.
    #[display("CP949")]
    Cp949,
}

/// A decoded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The text without its mark; borrowed when the file was UTF-8 already.
    pub text: Cow<'a, str>,
    /// The encoding that was used.
    pub encoding: Encoding,
    /// Whether a byte order mark decided it.
    pub marked: bool,
}

/// The bytes are not text in any recognised encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, derive_more::Error)]
#[display(
    "expected text in {EXPECTED}, found a byte at offset {} that is not {}; save the file as UTF-8",
    self.offset, self.encoding
)]
pub struct Undecodable {
    /// The encoding that was tried last.
    pub encoding: Encoding,
    /// Offset in the file of the first byte that is invalid in this encoding.
    pub offset: usize,
}

impl Undecodable {
    /// The fault in the file `bytes`; its column is in bytes.
    pub fn fault(self, bytes: &[u8]) -> Fault {
        let before = &bytes[..self.offset.min(bytes.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        Fault { line, column, why: self.to_string() }
    }
}

/// A fault in a text file. `Display` begins with `LINE:COLUMN: `, so a caller that knows the file
/// puts its name and a colon in front.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display, derive_more::Error)]
#[display("{line}:{column}: {why}")]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column from 1, in characters (in bytes if the file is not text); a tab counts as one.
    pub column: usize,
    /// The cause and the remedy.
    pub why: String,
}

/// Text from a file in the form in which a fault shows it: shortened, and control characters
/// escaped.
pub fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 24;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Decodes a whole file.
///
/// # Errors
/// [`Undecodable`] with the offset of the first invalid byte.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, Undecodable> {
    if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf") {
        return match std::str::from_utf8(rest) {
            Ok(text) => {
                Ok(Decoded { text: Cow::Borrowed(text), encoding: Encoding::Utf8, marked: true })
            }
            Err(bad) => {
                Err(Undecodable { encoding: Encoding::Utf8, offset: 3 + bad.valid_up_to() })
            }
        };
    }
    if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
        return by_table(rest, Encoding::Utf16Le, 2);
    }
    if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
        return by_table(rest, Encoding::Utf16Be, 2);
    }
    if let Some(encoding) = guess_utf16(&bytes[..bytes.len().min(SAMPLE)]) {
        return by_table(bytes, encoding, 0);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            Ok(Decoded { text: Cow::Borrowed(text), encoding: Encoding::Utf8, marked: false })
        }
        Err(_) => by_table(bytes, Encoding::Cp949, 0),
    }
}

/// Encodes a text; with `marked`, a byte order mark begins it. Text that [`decode`] has read from
/// this encoding becomes the same bytes again.
pub fn encode(text: &str, encoding: Encoding, marked: bool) -> Vec<u8> {
    let mark = if marked { "\u{feff}" } else { "" };
    let halves = || mark.encode_utf16().chain(text.encode_utf16());
    match encoding {
        Encoding::Utf8 => [mark, text].concat().into_bytes(),
        Encoding::Utf16Le => halves().flat_map(u16::to_le_bytes).collect(),
        Encoding::Utf16Be => halves().flat_map(u16::to_be_bytes).collect(),
        // The code page has no mark.
        Encoding::Cp949 => cp949(text),
    }
}

fn guess_utf16(sample: &[u8]) -> Option<Encoding> {
    let nuls_at = |parity| sample.iter().skip(parity).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (nuls_at(0), nuls_at(1));
    match even + odd {
        few if few * 8 < sample.len() || few == 0 => None,
        all if odd * 4 >= all * 3 => Some(Encoding::Utf16Le),
        all if even * 4 >= all * 3 => Some(Encoding::Utf16Be),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoding, Undecodable, decode, encode};

    const TABLE: &str = "# \u{c7ac}\u{ace0} \u{d45c}\n1 7 1000\n5 3 3700\n";

    fn utf16(text: &str, half: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(half).collect()
    }

    fn check(bytes: &[u8], encoding: Encoding, marked: bool) {
        let decoded = decode(bytes).expect("decodes");
        assert_eq!(decoded.text, TABLE);
        assert_eq!((decoded.encoding, decoded.marked), (encoding, marked));
        assert_eq!(encode(&decoded.text, encoding, marked), bytes);
    }

    #[test]
    fn every_character_of_the_code_page_is_written_as_it_was_read() {
        let mut seen = 0;
        for pair in (0x8100..=0xffff_u16).map(u16::to_be_bytes) {
            let bytes = [&b"# "[..], &pair, b"\n"].concat();
            let Ok(decoded) = decode(&bytes) else { continue };
            if decoded.encoding == Encoding::Cp949 {
                assert_eq!(encode(&decoded.text, Encoding::Cp949, false), bytes, "{pair:x?}");
                seen += 1;
            }
        }
        assert!(seen > 10_000, "{seen}");
    }

    #[test]
    fn every_encoding_with_and_without_a_mark() {
        let little = utf16(TABLE, u16::to_le_bytes);
        let big = utf16(TABLE, u16::to_be_bytes);
        let korean = encoding_rs::EUC_KR.encode(TABLE).0;
        check(TABLE.as_bytes(), Encoding::Utf8, false);
        check(&[b"\xef\xbb\xbf", TABLE.as_bytes()].concat(), Encoding::Utf8, true);
        check(&little, Encoding::Utf16Le, false);
        check(&[b"\xff\xfe", &little[..]].concat(), Encoding::Utf16Le, true);
        check(&big, Encoding::Utf16Be, false);
        check(&[b"\xfe\xff", &big[..]].concat(), Encoding::Utf16Be, true);
        check(&korean, Encoding::Cp949, false);
    }

    #[test]
    fn utf8_is_borrowed_and_empty_is_utf8() {
        assert!(matches!(decode(b"1 2 3\n").unwrap().text, std::borrow::Cow::Borrowed(_)));
        let empty = decode(b"").unwrap();
        assert_eq!((empty.text.as_ref(), empty.encoding), ("", Encoding::Utf8));
    }

    #[test]
    fn refusals_name_the_offset() {
        let refused = |bytes: &[u8]| decode(bytes).unwrap_err();
        let at = |encoding, offset| Undecodable { encoding, offset };
        assert_eq!(refused(b"\xef\xbb\xbf12\xff"), at(Encoding::Utf8, 5));
        assert_eq!(refused(b"1 2 3\xff\xff\n"), at(Encoding::Cp949, 5));
        assert_eq!(refused(b"1\0 \x002"), at(Encoding::Utf16Le, 4));
        // A lone low surrogate.
        assert_eq!(refused(b"\xff\xfe1\0\x00\xdc"), at(Encoding::Utf16Le, 4));
    }

    #[test]
    fn nul_bytes_without_a_pattern_are_not_utf16() {
        assert_eq!(decode(b"a\0\0bc\0\0d").unwrap().encoding, Encoding::Utf8);
        assert_eq!(decode(b"1 7 1000\n5 3 37\x000\n").unwrap().encoding, Encoding::Utf8);
    }
}
