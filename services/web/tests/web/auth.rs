//! Paths that need a name and a password.

use super::talk::{Talk, journal, options, request};
use ::web::{Guard, MemoryFiles, Options, Web};

/// `ada` with the password `pass:wörd`, by `htpasswd -nbB -C 4`.
const USERS: &str = "# users\n\nada:$2y$04$yt6.r4Z8BF2WdAJLsIOZvu.ineSNR2ElWmiTekHXIjmXHQ5.n6hXK\n";
const RIGHT: &str = "Authorization: Basic YWRhOnBhc3M6d8O2cmQ=\r\n";
/// `ada:x`, and `bob:x`.
const WRONG: [&str; 2] = ["YWRhOng=", "Ym9iOng="];

fn guard() -> Guard {
    let guard = Guard::new("/private/").expect("a path");
    guard.set_users(USERS).expect("a file");
    guard
}

#[test]
fn a_guarded_path_needs_a_password() {
    let options = Options { guards: vec![guard()], ..options() };
    let files = [("private/a.txt", "secret"), ("public.txt", "open")];
    let web = Web::new(options, MemoryFiles::new(&files, true));
    let journal = journal();
    let check = |target: &str, fields: &str, status: &str| {
        for method in ["GET", "HEAD"] {
            let reply = Talk::new(&web, &journal).say(request(method, target, fields).as_bytes());
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {reply}");
            let asks = reply.contains("\r\nWWW-Authenticate: Basic realm=\"/private\", charset=");
            assert_eq!(asks, status == "401", "{target}: {reply}");
        }
    };
    check("/public.txt", "", "200");
    check("/.well-known/acme-challenge/x", "", "404");
    for target in
        ["/private/a.txt", "//private//a.txt", "/private", "/%70rivate/", "/x/../private/"]
    {
        check(target, "", "401");
        for wrong in WRONG {
            check(target, &format!("Authorization: Basic {wrong}\r\n"), "401");
        }
    }
    for bad in ["Basic", "Basic !", "Bearer YWRhOng=", "Basic YWRh"] {
        check("/private/a.txt", &format!("Authorization: {bad}\r\n"), "401");
    }
    // Checked, and then remembered.
    for _ in 0..2 {
        check("/private/a.txt", RIGHT, "200");
    }
    check("/private/b.txt", RIGHT, "404");
}

#[test]
fn a_file_that_is_read_again_counts_at_once() {
    let guard = guard();
    let options = Options { guards: vec![guard.clone()], ..options() };
    let web = Web::new(options, MemoryFiles::new(&[("private/a.txt", "secret")], false));
    let journal = journal();
    let ask = || Talk::new(&web, &journal).say(request("GET", "/private/a.txt", RIGHT).as_bytes());
    assert!(ask().ends_with("secret"));
    let why = guard.set_users("ada:$apr1$x$y\n").expect_err("another hash").to_string();
    assert!(why.starts_with("line 1: expected NAME:HASH with a hash of bcrypt"), "{why}");
    assert!(ask().ends_with("secret"), "a file with a mistake changes nothing");
    guard.set_users("").expect("nobody");
    assert!(ask().starts_with("HTTP/1.1 401 "));
}
