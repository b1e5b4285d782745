//! The last request of a connection and its reply, if the same request gets the same reply.
//!
//! A client that repeats a request sends the same bytes, so one comparison and one copy replace
//! parsing and formatting. A request is kept only if it has no body and its reply depends only on
//! its head and the second of its date.

/// The longest head that is kept, in bytes; browsers send longer ones, load generators shorter
/// ones.
const HEAD_MAX: usize = 512;
/// The longest reply that is kept, in bytes.
const ANSWER_MAX: usize = 512;

/// A head and its reply.
#[derive(Debug, Default)]
pub struct Memo {
    head: Vec<u8>,
    answer: Vec<u8>,
    /// The second of the reply's date.
    second: u64,
}

impl Memo {
    /// Keeps a reply that was sent at `second`.
    pub fn keep(&mut self, head: &[u8], answer: &[u8], second: u64) {
        self.head.clear();
        self.answer.clear();
        if head.len() <= HEAD_MAX && answer.len() <= ANSWER_MAX {
            self.head.extend_from_slice(head);
            self.answer.extend_from_slice(answer);
            self.second = second;
        }
    }

    /// The length of the head at the front of `input` and its reply, if they are known.
    #[inline]
    pub fn find(&self, input: &[u8], second: u64) -> Option<(usize, &[u8])> {
        let known = second == self.second && !self.head.is_empty() && input.starts_with(&self.head);
        known.then_some((self.head.len(), self.answer.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_head_in_the_same_second_is_known() {
        let mut memo = Memo::default();
        assert_eq!(memo.find(b"GET", 0), None);
        memo.keep(b"GET / ", b"OK", 7);
        assert_eq!(memo.find(b"GET / GET / ", 7), Some((6, &b"OK"[..])));
        assert_eq!(memo.find(b"GET / GET / ", 8), None);
        assert_eq!(memo.find(b"GET /", 7), None);
        memo.keep(b"GET / ", &[b'x'; ANSWER_MAX + 1], 7);
        assert_eq!(memo.find(b"GET / ", 7), None, "an answer that is too long is forgotten");
    }
}
