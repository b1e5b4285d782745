//! One connection to the web service, and the parts of requests and replies.

use ::web::{CHANGED_NS, Journal, MemoryFiles, Options, Web};
use memory::Region;
use seam::{Instant, WallClock};

pub type Talk<'a> = sim::Talk<'a, Web<MemoryFiles>>;

/// The time of every test: 100 s after the files were changed.
pub const NOW_NS: u64 = CHANGED_NS + 100_000_000_000;

pub fn journal() -> Region<Journal> {
    Region::<Journal>::alone(&[])
}

/// Options with files, routes and a clock.
pub fn options() -> Options {
    Options {
        demo: true,
        files: true,
        wall: WallClock::Fixed(Instant::ZERO, NOW_NS),
        ..Options::default()
    }
}

/// The replies of one connection to `input`, which must be the same warm and cold, and whether it
/// persists.
#[track_caller]
pub fn reply(files: &[(&str, &str)], options: &Options, input: &[u8]) -> (String, bool) {
    let journal = journal();
    let replies = [false, true].map(|cold| {
        let web = Web::new(options.clone(), MemoryFiles::new(files, cold));
        let mut talk = Talk::new(&web, &journal);
        (talk.say(input), !talk.closes())
    });
    assert_eq!(replies[0], replies[1], "warm and cold differ");
    replies[0].clone()
}

/// A request without a body.
pub fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// The body after the first head.
pub fn body(reply: &str) -> &str {
    reply.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
