//! The replies to slow clients, and their cost.

use super::talk::{Talk, body, journal, options, request};
use ::web::{MemoryFiles, Options, Web};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn talk(memory_files: MemoryFiles, test: impl FnOnce(&mut Talk<'_>)) {
    let (web, journal) = (Web::new(options(), memory_files), journal());
    test(&mut Talk::new(&web, &journal));
}

#[test]
fn a_head_has_ten_seconds_however_often_a_byte_comes() {
    talk(MemoryFiles::default(), |talk| {
        assert_eq!(talk.say(b"GET / "), "");
        for _ in 0..9 {
            assert_eq!(talk.after(SECOND), "");
            talk.say(b"x");
        }
        let reply = talk.after(SECOND);
        assert!(reply.starts_with("HTTP/1.1 408 ") && talk.closes(), "{reply}");
    });
    // Between two requests the time starts with the first byte.
    talk(MemoryFiles::default(), |talk| {
        talk.say(request("GET", "/", "").as_bytes());
        assert_eq!(talk.after(9 * SECOND), "");
        talk.say(b"G");
        assert_eq!(talk.after(9 * SECOND / 2), "");
        let reply = talk.after(6 * SECOND);
        assert!(reply.starts_with("HTTP/1.1 408 ") && talk.closes(), "{reply}");
    });
}

#[test]
fn who_says_nothing_is_left_without_a_word() {
    talk(MemoryFiles::default(), |talk| {
        assert_eq!(talk.after(10 * SECOND), "");
        assert!(talk.closes());
    });
    talk(MemoryFiles::default(), |talk| {
        talk.say(request("GET", "/", "").as_bytes());
        assert_eq!(talk.after(14 * SECOND), "");
        assert!(!talk.closes());
        assert_eq!(talk.after(SECOND), "");
        assert!(talk.closes());
    });
}

#[test]
fn a_body_must_keep_its_rate() {
    let post = request("POST", "/", "Content-Length: 2048\r\n");
    talk(MemoryFiles::default(), |talk| {
        talk.say(post.as_bytes());
        // 256 bytes a second are always enough.
        for second in 1..=7 {
            talk.say([b'x'; 256]);
            assert!(talk.wants().wake.is_some() && !talk.closes());
            assert_eq!(talk.after(SECOND), "", "cut off after {second} s at the least rate");
        }
        let reply = talk.say([b'x'; 256]);
        assert!(reply.starts_with("HTTP/1.1 200 ") && body(&reply).len() == 2048, "{reply:.200}");
    });
    talk(MemoryFiles::default(), |talk| {
        talk.say(post.as_bytes());
        talk.say([b'x'; 256]);
        assert_eq!(talk.after(59 * SECOND), "", "a pause of a minute is none");
        let reply = talk.after(2 * SECOND);
        assert!(reply.starts_with("HTTP/1.1 408 ") && talk.closes(), "{reply}");
    });
}

/// A slow reader gets every byte, and the output never holds more than its limit.
#[test]
fn a_great_file_to_a_slow_reader() {
    let great: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    for cold in [false, true] {
        let mut memory_files = MemoryFiles::new::<&str>(&[], cold);
        memory_files.put("great", great.clone());
        let web = Web::new(Options { demo: false, ..options() }, memory_files);
        let journal = journal();
        let mut talk = Talk::new(&web, &journal);
        let asked = request("GET", "/great", "").repeat(3);
        talk.quietly(|conn, web, cx| conn.feed(web, cx, asked.as_bytes()));
        let mut heard = Vec::new();
        let most = options().limits.output_high + 64 * 1024;
        while talk.waiting() > 0 {
            assert!(talk.waiting() < most, "{} bytes wait, cold: {cold}", talk.waiting());
            assert!(talk.held() < 3 * most, "{} bytes are held, cold: {cold}", talk.held());
            heard.extend(talk.sip(7_777));
        }
        let head = heard.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        assert_eq!(heard.len(), 3 * (head + great.len()), "cold: {cold}");
        assert!(heard[head..][..great.len()] == great && heard.ends_with(&great));
        assert!(!talk.closes());
    }
}

#[test]
fn who_does_not_read_is_not_called_late() {
    let page = request("GET", "/dynamic?rows=10000", "");
    talk(MemoryFiles::default(), |talk| {
        let asked = page.repeat(5);
        talk.quietly(|conn, web, cx| conn.feed(web, cx, asked.as_bytes()));
        let waiting = talk.waiting();
        talk.now = talk.now + 100 * SECOND;
        talk.quietly(|conn, web, cx| conn.deadline(web, cx));
        assert_eq!(talk.waiting(), waiting);
        let heard = String::from_utf8(talk.drink()).expect("text");
        assert_eq!(heard.matches("HTTP/1.1 200 OK").count(), 5);
    });
}

#[test]
fn the_end_and_the_drain() {
    talk(MemoryFiles::default(), |talk| {
        talk.say(request("GET", "/", "").as_bytes());
        assert_eq!(talk.say(b"\r\n"), "");
        assert_eq!(talk.ends(), "", "an empty line begins nothing");
        assert!(talk.closes());
    });
    talk(MemoryFiles::default(), |talk| {
        assert_eq!(talk.ends(), "");
        assert!(talk.closes());
    });
    talk(MemoryFiles::default(), |talk| {
        talk.say(b"GET / HTTP");
        assert!(talk.ends().starts_with("HTTP/1.1 400 ") && talk.closes());
    });
    talk(MemoryFiles::default(), |talk| {
        talk.say(request("POST", "/", "Content-Length: 5\r\n").as_bytes());
        assert!(talk.ends().starts_with("HTTP/1.1 400 ") && talk.closes());
    });
    talk(MemoryFiles::default(), |talk| {
        talk.say(request("GET", "/", "").as_bytes());
        assert_eq!(talk.drains(), "");
        assert!(!talk.closes(), "its next request may be on the way");
        assert_eq!(talk.after(Duration::from_millis(499)), "");
        assert!(!talk.closes());
        assert_eq!(talk.after(Duration::from_millis(1)), "");
        assert!(talk.closes(), "an idle connection ends with the server");
    });
    talk(MemoryFiles::default(), |talk| {
        talk.say(request("GET", "/", "").as_bytes());
        assert_eq!(talk.drains(), "");
        let reply = talk.say(request("GET", "/", "").as_bytes());
        assert!(reply.contains("200 OK") && reply.contains("Connection: close"), "{reply}");
        assert!(talk.closes(), "that was its last");
    });
    talk(MemoryFiles::default(), |talk| {
        talk.say(b"GET / HTTP/1.1\r\n");
        assert_eq!(talk.drains(), "");
        assert!(!talk.closes(), "who has begun may finish");
        let reply = talk.say(b"Host: a\r\n\r\n");
        assert!(reply.contains("200 OK") && reply.contains("Connection: close"), "{reply}");
        assert!(talk.closes());
    });
}
