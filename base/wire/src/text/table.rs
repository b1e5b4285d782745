//! Encodings other than UTF-8, by the tables of the WHATWG.

use std::borrow::Cow;

use encoding_rs::{DecoderResult, EUC_KR, UTF_16BE, UTF_16LE};

use super::{Decoded, Encoding, Undecodable};

/// The encodings that this program reads.
pub const EXPECTED: &str = "UTF-8, UTF-16 or CP949";

/// The text in the code page, which has no mark.
pub fn cp949(text: &str) -> Vec<u8> {
    EUC_KR.encode(text).0.into_owned()
}

/// Decodes with `encoding_rs`; `mark` bytes of byte order mark preceded `bytes`.
pub fn by_table(
    bytes: &[u8],
    encoding: Encoding,
    mark: usize,
) -> Result<Decoded<'static>, Undecodable> {
    let table = match encoding {
        Encoding::Utf16Le => UTF_16LE,
        Encoding::Utf16Be => UTF_16BE,
        Encoding::Cp949 => EUC_KR,
        Encoding::Utf8 => unreachable!("UTF-8 is checked without a table"),
    };
    let mut decoder = table.new_decoder_without_bom_handling();
    let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
    let mut text = String::with_capacity(room.unwrap_or(0));
    let (result, read) = decoder.decode_to_string_without_replacement(bytes, &mut text, true);
    match result {
        DecoderResult::InputEmpty => {
            text.shrink_to_fit();
            Ok(Decoded { text: Cow::Owned(text), encoding, marked: mark > 0 })
        }
        DecoderResult::Malformed(bad, after) => {
            let offset = mark + read.saturating_sub(usize::from(bad) + usize::from(after));
            Err(Undecodable { encoding, offset })
        }
        DecoderResult::OutputFull => {
            unreachable!("the buffer was sized for the worst case")
        }
    }
}
