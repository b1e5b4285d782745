//! Several sites by name.

use super::talk::{Talk, body, journal, options};
use ::layers::SiteNames;
use ::web::{MemoryFiles, Options, Rules, Web};

fn two_sites() -> Web<MemoryFiles> {
    let mut names = SiteNames::default();
    names.add(1, &["b.org".to_owned(), "*.b.org".to_owned()]).expect("names");
    let own = Rules {
        fields: vec!["X-Site: b".parse().expect("a field")],
        redirects: vec!["/old=/a.txt".parse().expect("a redirection")],
        fallback: Some("/a.txt".to_owned()),
        ..Rules::default()
    };
    let record = Some("json".parse().expect("a format"));
    let options =
        Options { names, record, other_rules: vec![own], compress_max: 1 << 20, ..options() };
    let site = |cold, text: &str| MemoryFiles::new(&[("a.txt", &text.repeat(2000))], cold);
    Web::with_sites(options, site(false, "a"), vec![site(true, "b")])
}

#[test]
fn the_host_chooses_files_rules_and_the_name_in_the_log() {
    let (web, journal) = (two_sites(), journal());
    let check = |head: &str, status: &str, site: &str, first: &str, own: bool| {
        let reply = Talk::new(&web, &journal).say(format!("{head}\r\n\r\n").as_bytes());
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{head:?}: {reply:.300}");
        assert!(body(&reply).starts_with(first), "{head:?}: {reply:.300}");
        assert_eq!(reply.contains("\r\nX-Site: b\r\n"), own, "{head:?}: {reply:.300}");
        let mut line = Vec::new();
        journal.take(&mut line);
        let line = String::from_utf8_lossy(&line);
        assert!(line.contains(&format!("\"site\":\"{site}\"")), "{head:?}: {line}");
    };
    for host in ["b.org", "B.org:8080", "x.y.B.ORG", "b.org."] {
        check(&format!("GET /a.txt HTTP/1.1\r\nHost: {host}"), "200", "b.org", "bbb", true);
    }
    for host in ["a.org", "xb.org", "", "[::1]:80"] {
        check(&format!("GET /a.txt HTTP/1.1\r\nHost: {host}"), "200", "default", "aaa", false);
    }
    // An absolute target counts instead of the field (RFC 9112 section 3.2.2).
    check("GET http://b.org:1/a.txt HTTP/1.1\r\nHost: a.org", "200", "b.org", "bbb", true);
    check("GET http://a.org/a.txt HTTP/1.1\r\nHost: b.org", "200", "default", "aaa", false);
    check("GET /a.txt HTTP/1.0", "200", "default", "aaa", false);
    check("GET /old HTTP/1.1\r\nHost: b.org", "301", "b.org", "301 ", true);
    check("GET /old HTTP/1.1\r\nHost: a.org", "404", "default", "404 ", false);
    check("GET /x HTTP/1.1\r\nHost: b.org", "200", "b.org", "bbb", true);
}

#[test]
fn sites_do_not_share_what_is_compressed() {
    let (web, journal) = (two_sites(), journal());
    let get = |host: &str| {
        let head = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\n\r\n");
        let mut talk = Talk::new(&web, &journal);
        talk.quietly(|conn, web, cx| conn.feed(web, cx, head.as_bytes()));
        let bytes = talk.drink();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(String::from_utf8_lossy(&bytes[..end]).contains("Content-Encoding: gzip"));
        bytes[end..].to_vec()
    };
    let first = get("a");
    assert_ne!(first, get("b.org"));
    assert_eq!(first, get("a"));
}
