//! The demonstration: the page of the game in Chromium.

use crate::browser::Browser;
use serde_json::json;
use std::process::Command;
use sys::process::Pid;
use sys::signal::Signal;
use testkit::procfs::{children, is_alive};
use testkit::{PATIENCE, Server, eventually};

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
    command.arg("demo").args(args);
    command
}

/// The page fits windows of both widths in both schemes, asks nobody else and complains of nothing.
fn inspect(browser: &mut Browser, name: &str) {
    for (width, scheme) in [(1600, "light"), (1600, "dark"), (500, "light"), (500, "dark")] {
        browser.look(width, 1000, scheme);
        browser.eval("new Promise(good => setTimeout(good, 500))");
        browser.shot(&format!("{name}-{width}-{scheme}"));
        let over = browser.eval("document.documentElement.scrollWidth - innerWidth");
        assert_eq!(over, json!(0), "the page is wider than {width}");
    }
    let asked = browser.requests();
    let is_own = |it: &String| it.starts_with("http://127.0.0.1:") || it.starts_with("data:");
    assert!(asked.iter().all(is_own), "{asked:?}");
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
}

/// Ctrl-C ends the demonstration and all of its processes, and the page says so.
fn interrupt(browser: &mut Browser, server: Server) {
    let family: Vec<Pid> = children(server.pid);
    server.signal(Signal::INT);
    server.ended(PATIENCE).success();
    eventually("its processes are gone", PATIENCE, || !family.iter().any(|pid| is_alive(*pid)));
    browser.wait("document.documentElement.dataset.state === 'lost'");
}

#[test]
fn a_player_walks_in_the_game_among_others() {
    let Some(mut browser) = Browser::open() else { return };
    let server = Server::start(&mut demo(&["--bots", "3"]));
    browser.look(1280, 900, "light");
    browser.go(&format!("http://{}/", server.address));
    browser.wait("document.documentElement.dataset.others === '3'");
    // A key that is tapped is a step; one of the four directions is free.
    let place = "document.documentElement.dataset.x + ',' + document.documentElement.dataset.y";
    let before = browser.eval(place);
    let keys = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"];
    let moved = keys.iter().any(|key| {
        browser.press(key);
        browser.eval("new Promise(good => setTimeout(good, 1000))");
        browser.eval(place) != before
    });
    assert!(moved, "a key moves the player away from {before}");
    // A click on the other half of the map.
    let at = browser.eval(
        "(() => { const box = world.getBoundingClientRect(), left = document.documentElement\
         .dataset.x > 40 ? .1 : .9; return [box.left + box.width * left, box.top + 40]; })()",
    );
    for kind in ["mousePressed", "mouseReleased"] {
        let event =
            json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
        browser.call("Input.dispatchMouseEvent", event);
    }
    browser.wait("document.documentElement.dataset.way > 20");
    let (before, place) = (browser.eval(place), place);
    browser.wait(&format!("{place} !== {before}"));
    inspect(&mut browser, "demo-game");
    interrupt(&mut browser, server);
}
