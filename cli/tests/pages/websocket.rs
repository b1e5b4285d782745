//! Pages in Chromium talk to the echo, the market, the game and the chat over WebSocket.

use std::process::Command;

use ::game::packet::{Ask, Role};
use serde_json::json;
use testkit::Server;

use crate::browser::Browser;

/// Opens a WebSocket to the server of this page, sends the messages (texts, or lists of bytes), and
/// closes it after `count` messages; the result is what came, and how it ended.
const TALK: &str = "(sent, count) => new Promise(good => {
    const [socket, heard] = [new WebSocket(`ws://${location.host}`), []];
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => sent.forEach(it => {
        socket.send(typeof it === 'string' ? it : new Uint8Array(it));
    });
    socket.onmessage = ({data}) => {
        heard.push(typeof data === 'string' ? data : [...new Uint8Array(data)]);
        if (heard.length === count) socket.close(1000);
    };
    socket.onclose = ({code, reason, wasClean}) => good([heard, code, reason, wasClean]);
})";

fn serve(service: &str) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
    let args = ["serve", service, "--engine", "epoll", "--port", "0", "--websocket"];
    Server::start(command.args(args))
}

#[test]
fn pages_talk_to_services() {
    let Some(mut browser) = Browser::open() else { return };
    let mut talk = |service: &str, sent: serde_json::Value, count: u32| {
        let server = serve(service);
        // The page that says that a WebSocket is expected has the right origin.
        browser.go(&format!("http://{}/", server.address));
        let heard = browser.eval(&format!("({TALK})({sent}, {count})"));
        server.stop();
        heard
    };
    let packet = [8, 0, 1, 2, 3, 4, 5, 6, 7, 255];
    let login = [8, 0, 255, 255, 255, 255, 255, 255, 255, 127];
    let heard = talk("echo", json!([packet]), 2);
    assert_eq!(heard, json!([[login, packet], 1000, "", true]));
    let heard = talk("stock", json!(["buy 1 1", "what"]), 2);
    assert_eq!(heard[0][0], json!("[buy] success\n"));
    assert!(heard[0][1].as_str().is_some_and(|it| it.starts_with("error: ")), "{heard}");
    let heard = talk("stock", json!([[0, 1]]), 9);
    assert_eq!(heard, json!([[], 1003, "expected text, found binary", true]));
    let mut join = Vec::new();
    Ask::Join { version: 1, role: Role::Player, name: "Ada".to_owned() }.put(&mut join);
    let heard = talk("game", json!([join]), 1);
    // A welcome has the size of the map, 80 x 40.
    assert!(heard[0][0].to_string().contains(",80,0,40,0,"), "{heard}");
}

#[test]
fn the_chat_of_the_examples() {
    let Some(chat) = testkit::example("websocket") else { return };
    let Some(mut browser) = Browser::open() else { return };
    let server = Server::start(Command::new(chat).args(["--port", "0"]));
    browser.go(&format!("http://{}/", server.address));
    browser.wait("talk.textContent === 'welcome\\n'");
    browser.eval("other = new WebSocket(socket.url); other.onmessage = it => said = it.data; 0");
    browser.wait("window.said === 'welcome\\n'");
    browser.eval("other.send('hi \u{e9}')");
    browser.wait("talk.textContent.endsWith('\\nhi \u{e9}\\n')");
    browser.eval("line.value = 'ho'; form.requestSubmit()");
    browser.wait("window.said === 'ho\\n' && talk.textContent.endsWith('you: ho\\n')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    server.stop();
    browser.wait("talk.textContent.endsWith('closed: 1001 the server stops\\n')");
}
