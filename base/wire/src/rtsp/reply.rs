//! A response as bytes.

use std::fmt::{Display, Write};

use super::status::Status;

/// A response under construction: the status line and `CSeq`, then fields, then the body.
#[derive(Debug)]
pub struct Reply {
    text: String,
}

impl Reply {
    /// A response to the request whose `CSeq` was `cseq`.
    pub fn new(status: Status, cseq: &str) -> Reply {
        let Status(code, words) = status;
        let mut text = format!("RTSP/1.0 {code} {words}\r\n");
        if !cseq.is_empty() {
            let _ = write!(text, "CSeq: {cseq}\r\n");
        }
        Reply { text }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Display) -> Reply {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name}: {value}\r\n");
        self
    }

    /// Appends the response with this body to `out`.
    pub fn finish(mut self, body: &[u8], out: &mut Vec<u8>) {
        if !body.is_empty() {
            let _ = write!(self.text, "Content-Length: {}\r\n", body.len());
        }
        out.extend_from_slice(self.text.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }
}
