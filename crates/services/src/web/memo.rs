//! The last request of a connection that is answered the same each time, and its answer.
//!
//! A client that asks again asks with the same bytes, and a head that equals the last one byte for
//! byte means what the last one meant. One comparison and one copy then take the place of parsing
//! and writing. What may be kept: a request without a body, whose answer depends on nothing but
//! its head and the second of its date.

/// The longest head that is kept, in bytes; browsers send more, machines less.
const HEAD_MAX: usize = 512;
/// The longest answer that is kept, in bytes.
const ANSWER_MAX: usize = 512;

/// A head and its answer.
#[derive(Debug, Default)]
pub struct Memo {
    head: Vec<u8>,
    answer: Vec<u8>,
    /// The second whose date the answer tells.
    second: u64,
}

impl Memo {
    /// Keeps an answer that was given at `second`.
    pub fn keep(&mut self, head: &[u8], answer: &[u8], second: u64) {
        self.head.clear();
        self.answer.clear();
        if head.len() <= HEAD_MAX && answer.len() <= ANSWER_MAX {
            self.head.extend_from_slice(head);
            self.answer.extend_from_slice(answer);
            self.second = second;
        }
    }

    /// The length of the head in front of `input` and its answer, if they are known.
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
