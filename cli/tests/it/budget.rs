//! Clients that pause keep their connections; only a shortage of memory costs some of them theirs,
//! the least useful first, and the server says so.

use crate::arms::Arm;
use crate::harness::{Client, Folder, PATIENCE, Plan, Server, eventually, ms};

/// Longer than a few segments, in bytes: most of it waits in the server.
const GREAT: usize = 8 << 20;
/// A pause that the server must endure.
const PAUSE_MS: u64 = 7000;
/// The part of its body that a client of the crowd sends, in bytes; then it is silent.
const PART: usize = 900_000;

fn serve(arm: &Arm, root: &str, more: &[&str]) -> Server {
    Plan::new(arm, "http").with(&["--demo", root]).with(more).start()
}

/// The head of a request with a body of `len` bytes.
fn post(len: usize) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n")
}

/// The body of a reply, which lasts until the end of output.
#[track_caller]
fn body(client: &mut Client) -> Vec<u8> {
    let heard = client.rest();
    let head = heard.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a whole head");
    assert!(heard.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", heard[..head].escape_ascii());
    heard[head + 4..].to_vec()
}

/// A download and an upload that pause for seconds arrive whole, with the usual options.
pub fn a_pause_is_no_end(arm: &Arm) {
    let folder = Folder::new();
    let great: Vec<u8> = (0..GREAT as u32).map(|number| (number % 251) as u8).collect();
    let file = folder.file("great", &great);
    let root = file.parent().and_then(|root| root.to_str()).expect("a temporary path is text");
    let server = serve(arm, root, &[]);
    let download = || {
        let mut client = server.client();
        client.narrow(64 * 1024);
        client.send("GET /great HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client
    };
    let upload = || {
        let mut client = server.client();
        client.send(post(1000));
        client.send([b'a'; 500]);
        client
    };
    let check = |mut clients: Vec<Client>, great: &[u8]| {
        std::thread::sleep(ms(PAUSE_MS));
        for client in &mut clients {
            // Only the upload has something to send.
            let _ = client.try_send([b'a'; 500]);
        }
        for client in &mut clients {
            let heard = body(client);
            assert!(heard == great || heard == [b'a'; 1000], "{} bytes", heard.len());
        }
    };
    if arm.crowd > 1 {
        check(vec![download(), upload()], &great);
    } else {
        check(vec![download()], &great);
        check(vec![upload()], &great);
    }
    server.stop();
}

/// Large replies that nobody reads count on every engine, and a client next to them is served.
pub fn unread_replies_count(arm: &Arm) {
    const PAGES: usize = 30;
    let folder = Folder::new();
    let root = folder.path().to_str().expect("a temporary path is text");
    let crowd = arm.crowd(8);
    let most = (crowd * 100_000).to_string();
    let server = serve(arm, root, &["--memory-max", &most]);
    let page = "GET /dynamic?rows=10000 HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut silent: Vec<Client> = (0..crowd)
        .map(|_| {
            let mut client = server.client();
            client.narrow(64 * 1024);
            client.send(page.repeat(PAGES));
            client
        })
        .collect();
    server.says("memory is short");
    if crowd == 1 {
        silent.clear();
    }
    let mut other = server.client();
    other.send(post(1000));
    other.send(vec![b'b'; 1000]);
    assert_eq!(body(&mut other).len(), 1000);
    // A stop would wait until they have taken their replies.
    drop(silent);
    server.stop().says("0 workers replaced");
}

/// Uploads of more than the budget that stand still: the server closes as many as it must, says so,
/// counts them, and completes those that go on.
pub fn a_shortage_costs_the_silent(arm: &Arm) {
    let folder = Folder::new();
    let root = folder.path().to_str().expect("a temporary path is text");
    let crowd = arm.crowd(8);
    let most = (crowd * PART / 2).to_string();
    let server = serve(arm, root, &["--memory-max", &most]);
    let mut silent: Vec<Client> = (0..crowd)
        .map(|_| {
            let mut client = server.client();
            client.send(post(1 << 20));
            // The server may have closed it already.
            let _ = client.try_send(vec![b'a'; PART]);
            client
        })
        .collect();
    server.says("memory is short");
    let closed = |client: &mut Client| !client.hears_nothing();
    let mut count = 0;
    eventually("enough are closed", PATIENCE, || {
        count = silent.iter_mut().filter_map(|client| closed(client).then_some(())).count();
        count > crowd / 3
    });
    assert!(crowd == 1 || count < crowd, "all {count} were closed");
    // A small request and an upload next to them are served.
    let mut other = server.client();
    other.send(post(100_000));
    other.send(vec![b'b'; 100_000]);
    assert_eq!(body(&mut other).len(), 100_000);
    drop(silent);
    server.stop().says("0 workers replaced");
}
