//! The page on which users draw walls, with our own searches.

use crate::browser::Browser;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use testkit::Server;

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

fn serve() -> Server {
    Server::start(Command::new(EXE).args(["path", "edit"]))
}

const DONE: &str = "document.documentElement.dataset.state === 'done'";

/// A figure that the page publishes.
fn told(browser: &mut Browser, key: &str) -> String {
    let value = browser.eval(&format!("document.documentElement.dataset.{key}"));
    value.as_str().unwrap_or_default().to_owned()
}

/// Moves the pointer along cells of the left grid, pressed from the first to the last.
fn drag(browser: &mut Browser, cells: &[(u32, u32)]) {
    for (at, (x, y)) in cells.iter().enumerate() {
        let place = browser.eval(&format!(
            "(() => {{ const it = document.getElementById('canvas0'); \
             const box = it.getBoundingClientRect(); \
             return [box.left + 1 + ({x} + .5) * it.clientWidth / 80, \
             box.top + 1 + ({y} + .5) * it.clientHeight / 40]; }})()"
        ));
        let kinds: &[&str] = match at {
            0 => &["mouseMoved", "mousePressed"],
            _ if at + 1 == cells.len() => &["mouseMoved", "mouseReleased"],
            _ => &["mouseMoved"],
        };
        for kind in kinds {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left",
                               "buttons": 1, "clickCount": 1});
            browser.call("Input.dispatchMouseEvent", event);
        }
    }
}

/// The status line of the reply to GET / with this Host.
fn status(server: &Server, host: &str) -> String {
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("a reply and the end");
    String::from_utf8_lossy(&reply).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn strangers_names_are_refused_and_the_silent_keep_nobody_out() {
    let server = serve();
    assert_eq!(status(&server, "evil.example"), "HTTP/1.1 403 Forbidden");
    let silent: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(server.address).expect("it listens")).collect();
    assert_eq!(status(&server, "localhost:80"), "HTTP/1.1 200 OK");
    for stream in &silent {
        stream.set_nonblocking(true).expect("a socket");
        let waits = stream.peek(&mut [0]).expect_err("it still waits for a request");
        assert_eq!(waits.kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn walls_that_are_drawn_change_both_searches() {
    let Some(mut browser) = Browser::open() else { return };
    let server = serve();
    browser.look(1280, 900, "light");
    browser.go(&format!("http://{}/", server.address));
    browser.wait(DONE);
    assert_eq!((told(&mut browser, "length0"), told(&mut browser, "length1")), both("84.4975"));
    assert_eq!(told(&mut browser, "walls"), "328");
    browser.shot("path-1280-light");
    // From the upper edge to near the lower one: a path must go around below.
    drag(&mut browser, &[(60, 0), (60, 20), (60, 38)]);
    browser.wait(DONE);
    assert_eq!(told(&mut browser, "length0"), told(&mut browser, "length1"));
    let around: f64 = told(&mut browser, "length0").parse().expect("a length");
    assert!(around > 84.4975, "{around}");
    browser.shot("path-walls");
    // Up to the edge: no path is left.
    drag(&mut browser, &[(60, 39), (61, 39)]);
    browser.wait(&format!("{DONE} && document.documentElement.dataset.length0 === 'none'"));
    assert!(
        browser.eval("document.getElementById('said').textContent.includes('nearest cell')")
            == json!(true)
    );
    // Back to an empty grid, by keys: the mark goes one to the right of the start and builds there.
    browser.eval("document.getElementById('clear').click()");
    browser.wait(&format!("{DONE} && document.documentElement.dataset.walls === '0'"));
    assert_eq!((told(&mut browser, "length0"), told(&mut browser, "length1")), both("84.4975"));
    browser.eval("document.getElementById('canvas0').focus()");
    for key in ["ArrowRight", "Enter"] {
        browser.press(key);
    }
    browser.wait(&format!("{DONE} && document.documentElement.dataset.walls === '1'"));
    let over = browser.eval("document.documentElement.scrollWidth - innerWidth");
    assert_eq!(over, json!(0), "the page is wider than the window");
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
    drop(server);
    browser.eval("document.getElementById('run').click()");
    browser.wait("document.documentElement.dataset.state === 'lost'");
}

fn both(length: &str) -> (String, String) {
    (length.to_owned(), length.to_owned())
}
