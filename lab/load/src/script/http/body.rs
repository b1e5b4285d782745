//! The body of a reply: how it ends, and how much of it has arrived (RFC 9112 section 6).

/// The way a body ends, and the part that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// The head gives its length.
    Sized { left: u64, seen: u64 },
    /// It arrives in chunks, each preceded by its size.
    Chunked { at: Chunk, seen: u64 },
    /// It ends with the connection.
    ToEnd { seen: u64 },
}

/// The position within a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Before the line with a size.
    Size,
    /// In the data.
    Data {
        left: u64,
    },
    /// Before the newline after the data.
    End,
    /// In the lines after the last chunk.
    Trailer,
    Done,
}

/// The longest line between chunks (bytes).
const LINE_MAX: usize = 4096;

impl Body {
    pub(super) fn empty() -> Self {
        Self::Sized { left: 0, seen: 0 }
    }

    /// A chunked body of which nothing has arrived.
    pub(super) fn chunked() -> Self {
        Self::Chunked { at: Chunk::Size, seen: 0 }
    }

    /// Bytes of content so far.
    pub(super) fn seen(&self) -> u64 {
        match *self {
            Self::Sized { seen, .. } | Self::Chunked { seen, .. } | Self::ToEnd { seen } => seen,
        }
    }

    /// Whether it is complete. A body that ends with the connection never is.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Sized { left, .. } => *left == 0,
            Self::Chunked { at, .. } => *at == Chunk::Done,
            Self::ToEnd { .. } => false,
        }
    }

    /// Consumes the part of `bytes` that belongs to it; returns its length.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, String> {
        self.take_to(bytes, |_| {})
    }

    /// The same; `keep` gets the content, piece by piece.
    pub(super) fn take_to(
        &mut self,
        bytes: &[u8],
        mut keep: impl FnMut(&[u8]),
    ) -> Result<usize, String> {
        match self {
            Self::Sized { left, seen } => {
                let taken = count(left, seen, bytes);
                keep(&bytes[..taken]);
                Ok(taken)
            }
            Self::ToEnd { seen } => {
                *seen += bytes.len() as u64;
                keep(bytes);
                Ok(bytes.len())
            }
            Self::Chunked { at, seen } => chunks(at, seen, bytes, keep),
        }
    }
}

/// Counts up to `left` of the bytes.
fn count(left: &mut u64, seen: &mut u64, bytes: &[u8]) -> usize {
    let taken = (*left).min(bytes.len() as u64);
    *left -= taken;
    *seen += taken;
    taken as usize
}

fn chunks(
    at: &mut Chunk,
    seen: &mut u64,
    bytes: &[u8],
    mut keep: impl FnMut(&[u8]),
) -> Result<usize, String> {
    let mut used = 0;
    loop {
        let rest = &bytes[used..];
        let line = match at {
            Chunk::Done => return Ok(used),
            Chunk::Data { left } => {
                let taken = count(left, seen, rest);
                keep(&rest[..taken]);
                used += taken;
                if *left > 0 {
                    return Ok(used);
                }
                *at = Chunk::End;
                continue;
            }
            Chunk::Size | Chunk::End | Chunk::Trailer => line(rest)?,
        };
        let Some(line) = line else { return Ok(used) };
        used += line.len() + 2;
        *at = match at {
            Chunk::Size => match size(line)? {
                0 => Chunk::Trailer,
                left => Chunk::Data { left },
            },
            Chunk::End if line.is_empty() => Chunk::Size,
            Chunk::End => {
                let found = super::shown(line);
                return Err(format!("expected the end of a chunk, found {found}"));
            }
            _ if line.is_empty() => Chunk::Done,
            _ => Chunk::Trailer,
        };
    }
}

/// The line at the front without its CR LF, once complete.
fn line(rest: &[u8]) -> Result<Option<&[u8]>, String> {
    match memchr::memchr(b'\n', rest) {
        Some(end) => {
            let line = &rest[..end];
            let line = line.strip_suffix(b"\r");
            line.map(Some).ok_or_else(|| {
                format!("expected CR LF after a line of chunks, found {}", super::shown(rest))
            })
        }
        None if rest.len() <= LINE_MAX => Ok(None),
        None => Err(format!("expected a line of chunks, found {}", super::shown(rest))),
    }
}

/// The size in hexadecimal digits, without extensions after a semicolon.
fn size(line: &[u8]) -> Result<u64, String> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    let text = str::from_utf8(digits).unwrap_or_default().trim_matches([' ', '\t']);
    let size = u64::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
    size.ok_or_else(|| format!("expected the size of a chunk, found {}", super::shown(line)))
}
