//! Routes that are more than a request and a reply: uploads taken piece by piece, WebSockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use roundhouse::prelude::*;
use roundhouse::sim;
use testkit::{Folder, PATIENCE, eventually, has_uring};
use wire::websocket::{EXAMPLE_REQUEST, Opcode, frames, put_masked};

const SEEDS: u64 = 10;
/// Engines of each kind that runs in this program.
const ENGINES: [&str; 5] = ["epoll", "thread", "reactor", "port", "uring"];

fn on_each(visit: impl Fn(Server<roundhouse::Http<()>>, &str)) {
    for engine in ENGINES.iter().filter(|engine| has_uring() || !["uring", "port"].contains(engine))
    {
        visit(Server::new(service()).engine(engine), engine);
    }
}

/// Adds the bytes of a body up.
fn sum(call: &Call<'_>, _: &Cx<'_, ()>) -> Result<Upload<()>, HttpError> {
    if call.field("X-Refused").is_some() {
        return Err(HttpError::new(403, "expected no X-Refused"));
    }
    let pause = call.query == "slow";
    let add = move |cx: &Cx<'_, ()>, (count, sum): &mut (u64, u64), piece: &[u8]| {
        (*count, *sum) = (*count + piece.len() as u64, *sum + add_up(piece));
        if piece.contains(&b'!') {
            return Err(HttpError::new(422, "expected no exclamation"));
        }
        assert!(!piece.contains(&b'?'), "a question");
        Ok(match pause {
            true => Flow::At(cx.now + Duration::from_millis(1)),
            false => Flow::More,
        })
    };
    Ok(Upload::fold((0, 0), add, |_, (count, sum)| format!("{count} {sum}")))
}

fn add_up(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

/// Says each text back, after the word of the path; knows some words.
fn talk(call: &Call<'_>, _: &Cx<'_, ()>) -> Result<Socket<()>, HttpError> {
    let word = call.param::<String>("word")?;
    if word == "closed" {
        return Err(HttpError::new(403, "expected an open room"));
    }
    Ok(Socket::by(move |cx, event, reply| match event {
        SocketEvent::Open => drop(reply.text("hello")),
        SocketEvent::Text("bye") => reply.text("so long").close(4001, "left"),
        SocketEvent::Text("panic") => panic!("a word that is no word"),
        SocketEvent::Text("later") => {
            reply.wake_at(cx.now + Duration::from_millis(5));
        }
        SocketEvent::Text(text) => drop(reply.text(format!("{word} {text}"))),
        SocketEvent::Binary(bytes) => drop(reply.binary(bytes)),
        SocketEvent::Timer => drop(reply.text("now")),
        SocketEvent::Closed => drop(CLOSED.fetch_add(1, Ordering::Relaxed)),
    }))
}

/// WebSockets that have ended.
static CLOSED: AtomicU64 = AtomicU64::new(0);

fn service() -> roundhouse::Http<()> {
    let mut service = routes()
        .get("/", |_, _| "home")
        .upload("PUT", "/sum", 1 << 30, sum)
        .upload("PUT", "/small", 100, sum)
        .websocket("/talk/{word}", talk)
        .service();
    service.dated = false;
    service.patience = Duration::from_secs(3600);
    service
}

const TEXT: &str = r"Content-Type: text/plain; charset=utf-8\r\nContent-Length:";

#[test]
fn an_upload_is_taken_piece_by_piece() {
    let chunked = r"Host: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let length = r"Host: a\r\nContent-Length: ";
    for path in ["/sum", "/sum?slow"] {
        let script = format!(
            r">| PUT {path} HTTP/1.1\r\n{length}5\r\n\r\nabcde
<| HTTP/1.1 200 OK\r\n{TEXT} 5\r\n\r\n5 495
>| PUT {path} HTTP/1.1\r\n{length}0\r\n\r\n
<| HTTP/1.1 200 OK\r\n{TEXT} 3\r\n\r\n0 0
>| PUT {path} HTTP/1.1\r\n{chunked}2\r\nab\r\n1\r\nc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
<| HTTP/1.1 200 OK\r\n{TEXT} 5\r\n\r\n3 294HTTP/1.1 200 OK\r\n{TEXT} 4\r\n\r\nhome
"
        );
        sim::check(&service(), &script, SEEDS);
    }
}

/// An upload that is refused closes the connection, because the rest of its body is not read.
#[test]
fn a_refused_upload_ends_the_connection() {
    let table = r"
        /small|Content-Length: 101^^|413 Content Too Large|expected a shorter body
        /small|Transfer-Encoding: chunked^^65^|413 Content Too Large|expected a shorter body
        /sum|X-Refused: x^Content-Length: 5^^ab|403 Forbidden|expected no X-Refused
        /sum|Content-Length: 5^^a!b|422 Unprocessable Content|expected no exclamation
        /sum|Content-Length: 5^^a?|500 Internal Server Error|internal error
        /sum|Transfer-Encoding: chunked^^x^|400 Bad Request|expected";
    for line in table.lines().skip(1) {
        let [path, rest, status, why] = line.trim().split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let rest = rest.replace('^', "\r\n");
        let body = if rest.ends_with("65\r\n") { "a".repeat(0x65) } else { String::new() };
        let sent = format!("PUT {path} HTTP/1.1\r\nHost: a\r\n{rest}{body}");
        let acts = vec![sim::Act::Send(sent.into_bytes()), sim::Act::Stay];
        let clients = vec![sim::Client { acts, ..sim::Client::default() }];
        let heard = sim::run(&service(), &(), &sim::Script { clients }, &sim::Faults::calm(), 1);
        assert_eq!(heard.lawful(), Ok(()));
        let reply = String::from_utf8_lossy(&heard.only().bytes).into_owned();
        assert_eq!(heard.only().end, sim::End::Closed, "{line}: {reply}");
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{line}: {reply}");
        assert!(reply.contains("Connection: close\r\n") && reply.contains(why), "{line}: {reply}");
    }
}

/// The time for a request counts for each 64 KiB of an upload: it may take longer in all, but a
/// client that stops is refused.
#[test]
fn an_upload_may_take_long_but_not_stop() {
    let heard = |pieces: usize| {
        let mut service = service();
        (service.patience, service.body_max) = (Duration::from_millis(50), 100);
        let head = "PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n";
        let mut acts = vec![sim::Act::Send(head.into())];
        for _ in 0..pieces {
            acts.push(sim::Act::Wait(Duration::from_millis(30)));
            acts.push(sim::Act::Send(vec![1; 100]));
        }
        acts.push(sim::Act::Stay);
        let clients = vec![sim::Client { acts, ..sim::Client::default() }];
        let heard = sim::run(&service, &(), &sim::Script { clients }, &sim::Faults::calm(), 1);
        assert_eq!(heard.lawful(), Ok(()));
        String::from_utf8_lossy(&heard.only().bytes).into_owned()
    };
    assert!(heard(20).ends_with("2000 2000"));
    assert!(heard(19).starts_with("HTTP/1.1 408 "));
}

#[test]
fn a_long_upload_takes_no_memory() {
    const LEN: usize = 40 << 20;
    on_each(|server, engine| {
        let server = server.spawn().expect(engine);
        let head = format!("PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: {LEN}\r\n\r\n");
        let reply = testkit::talk(server.address(), &[head.into_bytes(), vec![1; LEN]]);
        let reply = String::from_utf8(reply.expect("a reply")).expect("text");
        assert!(reply.ends_with(&format!("\r\n\r\n{LEN} {LEN}")), "{engine}: {reply}");
        server.stop().expect("a drain");
    });
}

/// A frame as a client sends it; a mask of zeros leaves it legible.
fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_masked(true, opcode, payload, [0; 4], &mut bytes);
    bytes
}

fn line(mark: &str, bytes: &[u8]) -> String {
    format!(
        "{mark} {}\n",
        bytes.escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\"")
    )
}

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn request(path: &str) -> String {
    EXAMPLE_REQUEST.replace("GET / ", &format!("GET {path} "))
}

#[test]
fn a_route_becomes_a_websocket() {
    let ping = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let home = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\
                Content-Length: 4\r\n\r\nhome";
    let mut script = line(">|", ping.as_bytes()) + &line("<|", home.as_bytes());
    script += &line(">|", request("/talk/so").as_bytes());
    script += &line("<|", &[SWITCHED.as_bytes(), b"\x81\x05hello"].concat());
    let mut fragments = Vec::new();
    put_masked(false, Opcode::Text, b"a", [0; 4], &mut fragments);
    put_masked(true, Opcode::Ping, b"p", [0; 4], &mut fragments);
    put_masked(true, Opcode::Continuation, b"b", [0; 4], &mut fragments);
    script += &line(">|", &fragments);
    script += &line("<|", b"\x8a\x01p\x81\x05so ab");
    script += &line(">|", &frame(Opcode::Binary, b"\0\xff"));
    script += &line("<|", b"\x82\x02\0\xff");
    for (word, code) in [("bye", &b"\x0f\xa1left"[..]), ("panic", b"\x03\xf3internal error")] {
        let mut last = line(">|", &frame(Opcode::Text, word.as_bytes()));
        if word == "bye" {
            last += &line("<|", b"\x81\x07so long");
        }
        last += &line("<|", &[&[0x88, code.len() as u8], code].concat());
        sim::check(&service(), &format!("{script}{last}= closed\n"), SEEDS);
    }
    // The end of the client is echoed, with its code.
    let end = line(">|", &frame(Opcode::Close, b"\x03\xe9")) + &line("<|", b"\x88\x02\x03\xe9");
    sim::check(&service(), &format!("{script}{end}"), SEEDS);
    let too_long = line(">|", b"\x81\xff\0\0\0\0\0\x10\0\0\0\0\0\0")
        + "<| \\x88\\x1c\\x03\\xf1expected a shorter message\n= closed\n";
    sim::check(&service(), &format!("{script}{too_long}"), 0);
    let later = line(">|", &frame(Opcode::Text, b"later"))
        + &line("<|", b"\x81\x03now")
        + "= end\n"
        + &line("<|", b"\x88\x02\x03\xe8");
    sim::Golden::parse(&format!("{script}{later}")).expect("a script").play(
        &service(),
        || (),
        &sim::Faults::calm(),
        0,
    );
}

#[test]
fn what_is_no_handshake_gets_a_reply_and_the_connection_goes_on() {
    let plain = "GET /talk/so HTTP/1.1\r\nHost: a\r\n\r\n";
    let why = "expected a WebSocket: Upgrade: websocket\n";
    let refused = format!(
        "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{why}",
        why.len()
    );
    let closed = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n\
                  Content-Length: 22\r\n\r\nexpected an open room\n";
    let script = line(">|", plain.as_bytes())
        + &line("<|", refused.as_bytes())
        + &line(">|", request("/talk/closed").as_bytes())
        + &line("<|", closed.as_bytes());
    sim::check(&service(), &script, SEEDS);
}

/// A client that sends and does not read stops; it goes on when it reads.
#[test]
fn a_websocket_has_back_pressure_and_a_drain_says_so() {
    on_each(|server, engine| {
        let server = server.spawn().expect(engine);
        let mut client = TcpStream::connect(server.address()).expect("a client");
        client.write_all(request("/talk/so").as_bytes()).expect("a request");
        client.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let message = frame(Opcode::Binary, &[7; 50_000]);
        let mut sent = 0;
        // It is taken until every buffer between is full: then a write blocks.
        while sent < 4_000 && client.write(&message[..1]).is_ok() {
            if client.write_all(&message[1..]).is_err() {
                break;
            }
            sent += 1;
        }
        assert!(sent < 4_000, "{engine}: 200 MB for a client that reads none");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client.read_exact(&mut vec![0; SWITCHED.len() + 7]).expect("a greeting");
        for _ in 0..sent.min(10) {
            let mut echo = vec![0; 4 + 50_000];
            client.read_exact(&mut echo).expect("an echo");
            assert!(echo[..4] == [0x82, 126, 0xc3, 0x50] && echo[4..].iter().all(|it| *it == 7));
        }
        drop(client);
        let mut quiet = TcpStream::connect(server.address()).expect("a client");
        quiet.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        quiet.write_all(request("/talk/so").as_bytes()).expect("a request");
        quiet.read_exact(&mut vec![0; SWITCHED.len() + 7]).expect("a greeting");
        server.stop().expect("a drain");
        let mut rest = Vec::new();
        quiet.read_to_end(&mut rest).expect("an end");
        let (opcode, last) = frames(&rest).last().expect("a frame");
        assert_eq!((opcode, last), (Opcode::Close, &b"\x03\xe9the server stops"[..]), "{engine}");
    });
    assert!(CLOSED.load(Ordering::Relaxed) > 0);
}

/// The findings of the page.
static FOUND: Mutex<String> = Mutex::new(String::new());

const PAGE: &str = "<!doctype html><script>
const heard = [];
const socket = new WebSocket(`ws://${location.host}/talk/so`);
socket.onmessage = message => {
    heard.push(message.data);
    if (heard.length == 1) socket.send('µ'.repeat(3));
    if (heard.length == 2) socket.send('bye');
};
socket.onclose = end => fetch('/found', { method: 'PUT',
    body: [...heard, end.code, end.reason, end.wasClean].join('|') });
</script>";

#[test]
fn a_browser_talks_to_the_port_that_serves_its_page() {
    let Some(chromium) = testkit::chromium() else { return };
    let service = routes()
        .get("/", |_, _| Html(PAGE))
        .websocket("/talk/{word}", talk)
        .put("/found", |call, _| {
            *FOUND.lock().expect("no panic") = String::from_utf8_lossy(call.body).into_owned();
            204
        })
        .service();
    let server = Server::new(service).engine("epoll").spawn().expect("a server");
    let profile = Folder::new();
    let mut browser = Command::new(chromium)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{}/", server.address()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("a browser");
    let found = || FOUND.lock().expect("no panic").clone();
    eventually("the page has found something", 3 * PATIENCE, || !found().is_empty());
    let group = format!("-{}", browser.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = browser.wait();
    assert_eq!(found(), "hello|so µµµ|so long|4001|left|true");
}
