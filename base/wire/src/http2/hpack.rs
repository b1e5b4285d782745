//! HPACK (RFC 7541): the decoder of a connection, and the integers of the encoder.
//!
//! The Huffman code is canonical: within a length, codes ascend with their symbols. So the lengths
//! of appendix B are the whole code, and a symbol is found by comparing the next bits with the
//! first code of the next length. Of the libraries without a runtime or a C build, loona-hpack
//! builds its maps for each string, which takes four fifths of a server's time, and httlib-hpack
//! panics on a block that is cut off.

use std::collections::VecDeque;
use std::sync::LazyLock;

use super::Code::Compression;

/// The size of the table, in bytes: the one that a peer may count on (section 4.2).
const TABLE: usize = 4096;
/// The cost of an entry beyond its bytes (section 4.1).
const ENTRY_COST: usize = 32;
/// The symbol that ends a string, which no string contains (section 5.2).
const EOS: u16 = 256;
/// The lengths of codes, in bits.
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// The static table (appendix A), from index 1: `name` or `name=value`.
const FIELDS: &str = "\
    :authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|\
    :scheme=https|:status=200|:status=204|:status=206|:status=304|:status=400|:status=404|\
    :status=500|accept-charset|accept-encoding=gzip, deflate|accept-language|accept-ranges|\
    accept|access-control-allow-origin|age|allow|authorization|cache-control|\
    content-disposition|content-encoding|content-language|content-length|content-location|\
    content-range|content-type|cookie|date|etag|expect|expires|from|host|if-match|\
    if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|\
    location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|\
    retry-after|server|set-cookie|strict-transport-security|transfer-encoding|user-agent|\
    vary|via|www-authenticate";

/// The lengths of the codes of all bytes and of [`EOS`], in bits (appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30,
    28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5,
    5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6,
    6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23,
    22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23,
    24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22,
    23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27,
    26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21,
    22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27,
    27, 27, 27, 27, 26, 30,
];

static STATIC: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    FIELDS.split('|').map(|row| row.split_once('=').unwrap_or((row, ""))).collect()
});

/// The index of `set-cookie` in the static table.
pub const SET_COOKIE: usize = 55;
/// The longest name of the static table, in bytes.
const NAME_MAX: usize = 27;

/// The names of the static table with their first index, by length.
static NAMES: LazyLock<[Vec<(&str, usize)>; NAME_MAX + 1]> = LazyLock::new(|| {
    std::array::from_fn(|len| {
        let mut names: Vec<_> = STATIC.iter().map(|(name, _)| *name).zip(1..).collect();
        names.dedup_by_key(|(name, _)| *name);
        names.retain(|(name, _)| name.len() == len);
        names
    })
});

/// The index of a name in the static table, in capital or small letters; 0 without one.
pub fn static_index(name: &[u8]) -> usize {
    let names = NAMES.get(name.len()).map_or(&[][..], Vec::as_slice);
    let Some(first) = name.first().map(u8::to_ascii_lowercase) else { return 0 };
    let is_it = |known: &[u8]| known[0] == first && known.eq_ignore_ascii_case(name);
    names.iter().find(|(known, _)| is_it(known.as_bytes())).map_or(0, |(_, index)| *index)
}

/// Appends an integer after the bits `above` its prefix (section 5.1).
pub fn put_integer(value: usize, prefix: u32, above: u8, out: &mut Vec<u8>) {
    let mask = (1 << prefix) - 1;
    if value < mask {
        return out.push(above | value as u8);
    }
    out.push(above | mask as u8);
    let mut rest = value - mask;
    while rest >= 128 {
        out.push(128 | (rest % 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// A name and a value.
type Entry = (Box<[u8]>, Box<[u8]>);

/// The decoder of the heads of a connection.
pub struct Decoder {
    /// The dynamic table, newest first.
    entries: VecDeque<Entry>,
    /// Its size with the cost of its entries, and the size that the peer has set.
    size: usize,
    size_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        let (name, value) = (Vec::new(), Vec::new());
        Decoder { entries: VecDeque::new(), size: 0, size_max: TABLE, name, value }
    }
}

impl Decoder {
    /// Decodes a block, and gives each field: name and value.
    ///
    /// # Errors
    /// [`super::Code::Compression`]; some fields may have been given.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), super::Code> {
        let mut rest = block;
        let mut has_fields = false;
        while let Some(first) = rest.first() {
            match first.leading_zeros() {
                // Indexed (section 6.1).
                0 => {
                    let index = integer(&mut rest, 7)?;
                    let (name, value) = self.entry(index).ok_or(Compression)?;
                    field(name, value);
                }
                // A change of the size, only in front of a block (sections 4.2, 6.3).
                2 => {
                    self.size_max = integer(&mut rest, 5)?;
                    if has_fields || self.size_max > TABLE {
                        return Err(Compression);
                    }
                    self.evict();
                    continue;
                }
                // A literal, to be kept after 01 (section 6.2).
                zeros => {
                    let index = integer(&mut rest, if zeros == 1 { 6 } else { 4 })?;
                    self.literal(index, &mut rest)?;
                    field(&self.name, &self.value);
                    if zeros == 1 {
                        self.keep();
                    }
                }
            }
            has_fields = true;
        }
        Ok(())
    }

    /// Reads a literal field into `name` and `value`.
    fn literal(&mut self, index: usize, rest: &mut &[u8]) -> Result<(), super::Code> {
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        match index {
            0 => string(rest, &mut name)?,
            _ => name.extend_from_slice(self.entry(index).ok_or(Compression)?.0),
        }
        self.name = name;
        self.value.clear();
        string(rest, &mut self.value)
    }

    fn entry(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some((name, value)) => Some((name.as_bytes(), value.as_bytes())),
            None => self.entries.get(index - STATIC.len()).map(|(name, value)| (&**name, &**value)),
        }
    }

    /// Puts the last literal into the table. One that is larger than the table empties it.
    fn keep(&mut self) {
        self.size += self.name.len() + self.value.len() + ENTRY_COST;
        self.entries.push_front((self.name[..].into(), self.value[..].into()));
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.size_max
            && let Some((name, value)) = self.entries.pop_back()
        {
            self.size -= name.len() + value.len() + ENTRY_COST;
        }
    }
}

/// Takes an integer whose first byte has `prefix` bits of it (section 5.1), below 2^28 + 2^prefix.
fn integer(rest: &mut &[u8], prefix: u32) -> Result<usize, super::Code> {
    let mask = (1 << prefix) - 1;
    let (first, mut more) = rest.split_first().ok_or(Compression)?;
    let mut value = usize::from(*first) & mask;
    let mut is_open = value == mask;
    for shift in [0, 7, 14, 21] {
        if is_open {
            let (byte, after) = more.split_first().ok_or(Compression)?;
            value += usize::from(byte & 127) << shift;
            (is_open, more) = (*byte >= 128, after);
        }
    }
    *rest = more;
    if is_open { Err(Compression) } else { Ok(value) }
}

/// Takes a string, and appends it as text (section 5.2).
fn string(rest: &mut &[u8], text: &mut Vec<u8>) -> Result<(), super::Code> {
    let is_coded = rest.first().is_some_and(|byte| *byte >= 128);
    let len = integer(rest, 7)?;
    let (bytes, after) = rest.split_at_checked(len).ok_or(Compression)?;
    *rest = after;
    if is_coded {
        return huffman(bytes, text);
    }
    text.extend_from_slice(bytes);
    Ok(())
}

/// The code, by length: the first code, the place of its symbol in `symbols`, and the end of the
/// codes of that length, of which the last is in front of it, in the upper bits of 32.
struct Code {
    firsts: [u64; LONGEST + 1],
    places: [usize; LONGEST + 1],
    ends: [u64; LONGEST + 1],
    symbols: [u16; 257],
}

static CODE: Code = {
    let (firsts, places, ends) = ([0; LONGEST + 1], [0; LONGEST + 1], [0; LONGEST + 1]);
    let mut code = Code { firsts, places, ends, symbols: [0; 257] };
    let (mut len, mut next, mut place) = (SHORTEST, 0, 0);
    while len <= LONGEST {
        code.firsts[len] = next;
        code.places[len] = place;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == len {
                code.symbols[place] = symbol as u16;
                place += 1;
                next += 1;
            }
            symbol += 1;
        }
        code.ends[len] = next << (32 - len);
        next *= 2;
        len += 1;
    }
    code
};

/// Appends the text of a coded string.
fn huffman(bytes: &[u8], text: &mut Vec<u8>) -> Result<(), super::Code> {
    let mut bytes = bytes.iter();
    // The next bits, from the upper end, and their number.
    let (mut held, mut count) = (0_u64, 0);
    loop {
        while count <= 32
            && let Some(byte) = bytes.next()
        {
            held |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        // Ones follow, as in a padding.
        let bits = held | (u64::MAX >> count);
        let window = bits >> 32;
        let fits = |len: &usize| window < CODE.ends[*len];
        let len = (SHORTEST..=LONGEST).find(fits).unwrap_or(LONGEST);
        let place = (window >> (32 - len)) - CODE.firsts[len];
        let symbol = CODE.symbols[CODE.places[len] + place as usize];
        if len > count || symbol == EOS {
            // Less than a byte of padding, all ones.
            return if count < 8 && bits == u64::MAX { Ok(()) } else { Err(Compression) };
        }
        text.push(symbol as u8);
        held <<= len;
        count -= len;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    type Read = Result<Vec<(Vec<u8>, Vec<u8>)>, crate::http2::Code>;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Read {
        let mut fields = Vec::new();
        decoder.decode(block, |name, value| fields.push((name.to_vec(), value.to_vec())))?;
        Ok(fields)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// Appendix C.6: replies with Huffman codes, and a table that evicts.
    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let mut decoder = Decoder::default();
        let size = bytes("3fe101"); // 256 bytes.
        let first = "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29\
                     ad171863c78f0b97c8e9ae82ae43d3";
        let block = [size, bytes(first)].concat();
        let fields = read(&mut decoder, &block).unwrap();
        assert_eq!(fields[0], (b":status".to_vec(), b"302".to_vec()));
        assert_eq!(fields[3], (b"location".to_vec(), b"https://www.example.com".to_vec()));
        let fields = read(&mut decoder, &bytes("4883640effc1c0bf")).unwrap();
        assert_eq!(fields[0].1, b"307");
        assert_eq!(fields[2].1, b"Mon, 21 Oct 2013 20:13:21 GMT");
        assert_eq!((decoder.size, decoder.entries.len()), (222, 4));
    }

    #[test]
    fn what_a_peer_breaks_is_refused() {
        let check = |hex: &str| {
            assert_eq!(read(&mut Decoder::default(), &bytes(hex)), Err(Compression), "{hex}");
        };
        check("80"); // Index 0.
        check("be"); // Index 62 of an empty table.
        check("ffffffffff0f"); // An integer without end.
        check("3fe21f"); // A table of 4,096 bytes and one more.
        check("8220"); // A change of the size after a field.
        check("4003"); // A string that is cut off.
        check("0085f2b24a84ff8449509fff"); // Padding of more than 7 bits.
        check("0085f2b24a84ff83495090"); // Padding of zeros.
        check("0085f2b24a84ff874951fffffffa7f"); // The end of a string in it.
        check("00"); // A literal without anything.
    }

    /// Random blocks, and blocks of fields with random changes: a library that decodes slowly reads
    /// the same.
    #[test]
    fn a_slow_library_reads_the_same() {
        let seed = 7;
        let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
        let mut good = 0;
        for _ in 0..20_000 {
            let mut block = Vec::new();
            for _ in 0..rng.random_range(1..6) {
                match rng.random_range(0..4) {
                    0 => block.push(128 | rng.random_range(1..=66)),
                    1 => block.extend([rng.random_range(0x41..0x7e), 2, b'a', b'b']),
                    2 => block.extend([0x40, 1, b'n', 0x81, rng.random()]),
                    _ => block.extend([0x00, 0x82, rng.random(), rng.random(), 1, b'v']),
                }
            }
            let mut slow = loona_hpack::Decoder::new();
            slow.set_max_allowed_table_size(TABLE);
            let slow = slow.decode(&block).map_err(|_| Compression);
            let own = read(&mut Decoder::default(), &block);
            assert_eq!(own, slow, "seed {seed}: {block:02x?}");
            good += usize::from(own.is_ok());
        }
        assert!(good > 1_000, "{good} blocks could be read");
    }
}
