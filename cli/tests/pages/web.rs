//! The web server under a real Chromium, on every engine: a page with its resources, seeks in
//! sound, a file in pieces and whole, forms.

use crate::browser::Browser;
use serde_json::json;
use std::process::Command;
use testkit::{Folder, Law, Server, WAVE_RATE, wave};

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

/// Bytes of `great`.
const GREAT: usize = 3 << 20;
/// Seconds of the sound.
const SECONDS: usize = 60;

const PAGE: &str = include_str!("site.html");

/// Shows eight pictures; the test awaits `check`.
const SCRIPT: &str = include_str!("site.js");

fn serve(engine: &str, site: &Folder) -> Server {
    let mut command = Command::new(EXE);
    command.args(["serve", "http", "--demo", "--port", "0", "--engine", engine]);
    // A browser opens six connections; with one client at a time five of them wait.
    command.args(["--keep-alive", if engine == "iterative" { "50ms" } else { "15s" }]);
    Server::start(command.arg(site.path()))
}

#[test]
fn a_site_on_every_engine() {
    let Some(mut browser) = Browser::open() else { return };
    let room = Folder::new();
    let great: Vec<u8> = (0..GREAT).map(|at| (at % 251) as u8).collect();
    let picture = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><rect/></svg>";
    let files: [(&str, &[u8]); 7] = [
        // The answer to the form names no icon, so the browser may request one at any time.
        ("favicon.ico", picture.as_bytes()),
        ("index.html", PAGE.as_bytes()),
        ("script.js", SCRIPT.as_bytes()),
        ("style.css", b"body { color: rgb(1, 2, 3) }"),
        ("picture.svg", picture.as_bytes()),
        ("sound.wav", &wave(Law::Pcm, &vec![128; SECONDS * WAVE_RATE as usize])),
        ("great", &great),
    ];
    for (name, bytes) in files {
        room.file(name, bytes);
    }
    // Servers live until the end: a page that was left may still send requests.
    let mut servers = Vec::new();
    for engine in testkit::presets().map(|preset| preset.name) {
        let server = serve(engine, &room);
        let page = format!("http://{}/index.html", server.address);
        browser.go(&page);
        let found = browser.eval("check().catch(error => String(error))");
        let posted = "word=a+b%26c&more=%C3%A9";
        let wanted = json!([GREAT, true, 206, 70_001, SECONDS, posted, 404]);
        assert_eq!(found, wanted, "{engine}");
        let complaints = browser.complaints();
        let is_one = complaints.len() == 1 && complaints[0].contains("404");
        assert!(is_one, "{engine}: all is well but for what is not there: {complaints:?}");
        browser.eval("document.getElementById('ask').submit()");
        browser.wait("location.pathname === '/echo' && document.readyState === 'complete'");
        let said = browser.eval("location.search + '\\n' + document.body.innerText");
        let said = said.as_str().unwrap_or_default();
        let host = format!("Host: {}", server.address);
        assert!(said.starts_with("?word=a+b%26c\n") && said.contains(&host), "{engine}: {said}");
        servers.push(server);
    }
}

#[test]
fn the_status_page_shows_what_the_server_costs() {
    let Some(mut browser) = Browser::open() else { return };
    let mut command = Command::new(EXE);
    command.args(["serve", "echo", "--port", "0", "--admin", "127.0.0.1:0"]);
    let server = Server::start(&mut command);
    browser.go(server.ready["admin"].as_str().expect("the address of a page"));
    browser.wait("document.getElementById('cards').innerText.includes('Processors busy')");
    let cards = browser.eval("document.getElementById('cards').innerText");
    let cards = cards.as_str().unwrap_or_default();
    assert!(cards.contains(" resident") && cards.contains("Refused"), "{cards}");
    assert!(!cards.contains("NaN"), "{cards}");
    assert_ne!(browser.eval("document.getElementById('top').textContent"), json!("0"));
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
}
