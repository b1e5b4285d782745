//! Counts words: each line is a word, and the reply says how often it has come.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

share! {
    /// The state that all workers share.
    pub struct Counts {
        words: Map<Bytes<32>, u64, 4096>,
    }
}

fn count(cx: &Cx<'_, Counts>, word: &[u8], reply: &mut ReplyBuffer<'_>) -> After {
    let Some(word) = Bytes::new(word) else {
        return reply.put("error: expected a word of 32 bytes").sent();
    };
    let mut times = 0;
    let added = cx.state.words.update(word, |old| {
        times = old.map_or(1, |old| old + 1);
        Some(times)
    });
    match added {
        Ok(()) => reply.show(times).sent(),
        Err(full) => reply.put("error: ").show(full).sent(),
    }
}

/// The service: lines of at most 1024 bytes.
pub fn service() -> impl Service + Send + 'static {
    Lines(1024).reply_with(count)
}
