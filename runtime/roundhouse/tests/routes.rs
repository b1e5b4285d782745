//! Routes of HTTP in the simulator: paths, methods, typed values, errors, layers, streamed bodies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use roundhouse::prelude::*;
use roundhouse::sim;
use serde::Deserialize;

const SEEDS: u64 = 10;

#[derive(Deserialize)]
struct Sum {
    a: i32,
    b: i32,
}

fn id(call: &Call<'_>, _: &Cx<'_, ()>) -> Result<String, HttpError> {
    Ok(format!("todo {}", call.param::<u64>("id")?))
}

fn sum(call: &Call<'_>, _: &Cx<'_, ()>) -> Result<Json<i32>, HttpError> {
    let Sum { a, b } = call.json()?;
    Ok(Json(a + b))
}

fn broken(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<String, HttpError> {
    Err("x".parse::<u8>().map(|_| ()).unwrap_err())?
}

fn three(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Pieces<()>, HttpError> {
    let mut count = 0;
    Ok(Pieces::by(move |cx, piece| {
        count += 1;
        if count == 3 {
            return Flow::End;
        }
        piece.event(format!("{count}\nx"));
        if count == 1 { Flow::More } else { Flow::At(cx.now + Duration::from_millis(5)) }
    }))
}

/// The pieces that [`endless`] was asked for.
static PIECES: AtomicU64 = AtomicU64::new(0);

fn endless(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Pieces<()>, HttpError> {
    Ok(Pieces::by(|_, piece| {
        PIECES.fetch_add(1, Ordering::Relaxed);
        piece.put([b'x'; 10_000]);
        Flow::More
    }))
}

fn ticking(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Pieces<()>, HttpError> {
    Ok(Pieces::by(|cx, piece| {
        piece.event("");
        Flow::At(cx.now + Duration::from_millis(5))
    }))
}

fn service() -> roundhouse::Http<()> {
    let mut service = routes()
        .get("/todo/{id}", id)
        .delete("/todo/{id}", |_, _| 204)
        .get("/todo/new", |_, _| "new")
        .get("/files/{*rest}", |call, _| call.param::<String>("rest"))
        .post("/sum", sum)
        .get("/sum", |call, _| call.query::<Sum>().map(|Sum { a, b }| (a + b).to_string()))
        .post("/form", |call, _| call.form::<Sum>().map(|Sum { a, b }| (a + b).to_string()))
        .get("/none", |_, _| None::<&str>)
        .get("/bytes", |_, _| (202, vec![0, 255]))
        .get("/broken", broken)
        .get("/panics", |_, _| -> u16 { panic!("a route of this test") })
        .offload("GET", "/slow/{id}", |call, _| call.param::<String>("id"))
        .offload("GET", "/slow-panics", |_, _| -> u16 { panic!("a route of this test") })
        .stream("/three", "text/event-stream", three)
        .stream("/endless", "text/plain", endless)
        .stream("/ticking", "text/event-stream", ticking)
        .service();
    service.dated = false;
    service
}

/// `REQUEST-LINE|FIELDS~BODY|STATUS|FIELDS|BODY` per line, on one connection; `^` ends a field, `%`
/// is the type of text, and a line with `+` goes on.
fn check(service: &roundhouse::Http<()>, table: &str) {
    let mut script = String::new();
    let table = table.split("+ ").map(str::trim_end).collect::<String>();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [request, rest, status, fields, body] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("expected five columns, found {line}");
        };
        let (fields_sent, sent) = rest.split_once('~').unwrap_or((rest, ""));
        let length = match sent.replace("\\xff", "b").len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\\r\\n"),
        };
        let text = "Content-Type: text/plain; charset=utf-8\\r\\n";
        let fields = fields.replace('^', "\\r\\n").replace('%', text);
        let length_of = body.replace("\\n", "n").replace("\\x00\\xff", "bb").len();
        let end = match status.starts_with("204") {
            true => String::new(),
            false => format!("Content-Length: {length_of}\\r\\n"),
        };
        let body = if request.starts_with("HEAD") { "" } else { body };
        let host = "HTTP/1.1\\r\\nHost: a\\r\\n";
        let asked = fields_sent.replace('^', "\\r\\n");
        script += &format!(">| {request} {host}{asked}{length}\\r\\n{sent}\n");
        script += &format!("<| HTTP/1.1 {status}\\r\\n{fields}{end}\\r\\n{body}\n");
    }
    sim::check(service, &script, SEEDS);
}

#[test]
fn a_path_and_a_method_choose_the_function() {
    let table = r"
        GET /todo/7||200 OK|%|todo 7
        HEAD /todo/7||200 OK|%|todo 7
        DELETE /todo/7||204 No Content||
        GET /todo/new||200 OK|%|new
        DELETE /todo/new||405 Method Not Allowed|Allow: GET, HEAD, OPTIONS^%|
            + expected GET, HEAD, OPTIONS, found DELETE\n
        GET /todo/||404 Not Found|%|expected a known path, found /todo/\n
        GET /todo/x||400 Bad Request|%|expected id as u64, found `x`\n
        GET /files/a/b%20c||200 OK|%|a/b c
        GET /lost||404 Not Found|%|expected a known path, found /lost\n
        PUT /todo/7||405 Method Not Allowed|Allow: GET, HEAD, DELETE, OPTIONS^%|
            + expected GET, HEAD, DELETE, OPTIONS, found PUT\n
        OPTIONS /sum||204 No Content|Allow: POST, GET, HEAD, OPTIONS^|
        GET /none||404 Not Found|%|expected something that exists\n
        GET /bytes||202 Accepted|Content-Type: application/octet-stream^|\x00\xff
        GET /slow/5||200 OK|%|5";
    check(&service(), table);
}

#[test]
fn values_come_from_the_query_a_form_and_json() {
    let json = "Content-Type: application/json; charset=utf-8^~";
    let form = "Content-Type: application/x-www-form-urlencoded^~";
    let table = format!(
        r#"
        GET /sum?a=1&b=-4||200 OK|%|-3
        GET /sum?a=1||400 Bad Request|%|expected another query: missing field `b`\n
        POST /form|{form}a=2&b=3|200 OK|%|5
        POST /form|{json}a=2&b=3|415 Unsupported Media Type|%|
            + expected a body of type application/x-www-form-urlencoded\n
        POST /form|{form}a=2|422 Unprocessable Content|%|expected another form: missing field `b`\n
        POST /sum|~{{"a":20,"b":22}}|200 OK|Content-Type: application/json^|42
        POST /sum|{json}{{"a":20,"b":22}}|200 OK|Content-Type: application/json^|42
        POST /sum|{json}{{"a":|400 Bad Request|%|
            + expected another body: EOF while parsing a value at line 1 column 5\n
        POST /sum|{json}{{"a":"\xff"}}|400 Bad Request|%|
            + expected another body: invalid utf-8 sequence of 1 bytes from index 6\n
        POST /sum|{json}{{"a":1}}|422 Unprocessable Content|%|
            + expected another body: missing field `b` at line 1 column 7\n
        POST /sum|{form}a=2&b=3|415 Unsupported Media Type|%|
            + expected a body of type application/json\n"#
    );
    check(&service(), &table);
}

#[test]
fn errors_and_panics_are_500_and_the_connection_goes_on() {
    let table = r"
        GET /broken||500 Internal Server Error|%|internal error\n
        GET /panics||500 Internal Server Error|%|internal error\n
        GET /slow-panics||500 Internal Server Error|%|internal error\n
        GET /todo/7||200 OK|%|todo 7";
    check(&service(), table);
}

#[test]
fn layers_stand_around_every_route_and_around_none() {
    fn login(call: &Call<'_>, _: &(), response: &mut HttpResponse, inner: Inner<'_>) {
        match call.field("Authorization") {
            Some(b"Bearer x") => inner.run(response),
            _ => response.status(401).text("login\n"),
        }
    }
    let mut service = routes()
        .get("/", |_, _| "in")
        .offload("GET", "/slow", |_, _| "slow")
        .layer(login)
        .cors("*")
        .service();
    service.dated = false;
    let cors = "Access-Control-Allow-Origin: *^Vary: Origin^";
    let allow = "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE^\
                 Access-Control-Allow-Headers: x-a^";
    let table = format!(
        r"
        GET /||401 Unauthorized|{cors}%|login\n
        GET /lost||401 Unauthorized|{cors}%|login\n
        GET /|Authorization: Bearer x^|200 OK|{cors}%|in
        GET /slow|Authorization: Bearer x^|200 OK|{cors}%|slow
        OPTIONS /|Authorization: Bearer x^Access-Control-Request-Headers: x-a^|204 No Content|
            + Allow: GET, HEAD, OPTIONS^{cors}{allow}|"
    );
    check(&service, &table);
    assert!(!service.keeps_state(), "constants of a layer are no state");
}

#[test]
fn a_streamed_body_is_chunked_and_the_next_request_waits_for_its_end() {
    let chunks =
        r"00000011\r\ndata: 1\ndata: x\n\n\r\n00000011\r\ndata: 2\ndata: x\n\n\r\n0\r\n\r\n";
    let head = r"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let chunked = r"Transfer-Encoding: chunked\r\n\r\n";
    let text = r"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\n";
    let script = format!(
        r">| HEAD /three HTTP/1.1\r\nHost: a\r\n\r\n
<| {head}{chunked}
>| GET /three HTTP/1.1\r\nHost: a\r\n\r\nGET /todo/7 HTTP/1.1\r\nHost: a\r\n\r\n
<| {head}{chunked}{chunks}HTTP/1.1 200 OK\r\n{text}\r\ntodo 7
"
    );
    sim::check(&service(), &script, SEEDS);
    let old = format!(
        r">| GET /three HTTP/1.0\r\n\r\n
<| {head}Connection: close\r\n\r\ndata: 1\ndata: x\n\ndata: 2\ndata: x\n\n
= closed
"
    );
    sim::check(&service(), &old, SEEDS);
}

/// A client that does not read costs a full output and the kernel's buffers.
#[test]
fn an_endless_body_is_bounded_by_its_reader() {
    let server = Server::new(service()).engine("epoll").drain(Duration::ZERO).spawn();
    let server = server.expect("a server");
    let mut client = TcpStream::connect(server.address()).expect("a client");
    client.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
    let mut last = 0;
    testkit::eventually("no more pieces are asked for", testkit::PATIENCE, || {
        std::thread::sleep(Duration::from_millis(200));
        std::mem::replace(&mut last, PIECES.load(Ordering::Relaxed)) == last && last > 0
    });
    assert!(last < 2_000, "{last} pieces of 10 kB for a client that reads none");
    client.read_exact(&mut vec![0; 10_000_000]).expect("a part of the body");
    assert!(PIECES.load(Ordering::Relaxed) > last);
}

#[test]
fn a_drain_ends_a_streamed_body() {
    for engine in ["epoll", "thread", "uring"] {
        let Ok(server) = Server::new(service()).engine(engine).spawn() else { continue };
        let mut client = TcpStream::connect(server.address()).expect("a client");
        client.write_all(b"GET /ticking HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        client.read_exact(&mut [0; 200]).expect("a part of the body");
        let report = server.stop().expect("an end");
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).expect("the end of the body");
        assert!(!report.forced && rest.ends_with(b"\r\n0\r\n\r\n"), "{engine}");
    }
}

share! {
    struct Seen {
        words: Map<Bytes<8>, u64, 8>,
    }
}

/// A helper thread changes the shared state as a worker does.
#[test]
fn slow_routes_change_the_shared_state() {
    fn count(call: &Call<'_>, state: &Seen) -> Result<String, HttpError> {
        let word = Bytes::new(call.param::<String>("word")?).ok_or(HttpError::new(400, "long"))?;
        state.words.update(word, |old| Some(old.map_or(1, |old| old + 1)))?;
        Ok(state.words.get(&word[..]).unwrap_or_default().to_string())
    }
    let mut service = routes().offload("GET", "/{word}", count).service();
    service.dated = false;
    let head = r"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1";
    let mut script = String::new();
    for (word, count) in [("a", 1), ("a", 2), ("b", 1), ("a", 3)] {
        script += &format!(">| GET /{word} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\n");
        script += &format!("<| {head}\\r\\n\\r\\n{count}\n");
    }
    sim::check(&service, &script, SEEDS);
}

#[test]
fn captured_values_are_refused_by_worker_processes() {
    let served = |service: roundhouse::Http<()>, engine: &str| {
        Server::new(service).engine(engine).spawn().err().map(|fault| fault.to_string())
    };
    let counting = || {
        let count = std::sync::Mutex::new(0);
        routes().get("/", move |_, _| {
            let mut count = count.lock().expect("no panic");
            *count += 1;
            count.to_string()
        })
    };
    for engine in ["prefork", "fork", "worker"] {
        let why = served(counting().service(), engine).expect("a refusal");
        assert!(why.contains("`share!`") && why.contains("--engine epoll"), "{why}");
        let other = served(counting().service().constant(), engine).unwrap_or_default();
        assert!(!other.contains("`share!`"), "{other}");
        let word = String::from("x");
        let prompt = http(move |_, response| response.text(&word));
        assert!(served(prompt, engine).expect("a refusal").contains("`share!`"));
    }
    assert_eq!(served(counting().service(), "reactor"), None);
    let word = String::from("x");
    let lines = lines(move |_, reply| reply.put(&word).sent());
    assert!(lines.keeps_state() && !lines.constant().keeps_state());
}

#[test]
#[should_panic(expected = "expected one function for GET /a, found a second")]
fn a_second_function_is_refused() {
    let _ = routes::<()>().get("/a", |_, _| "").get("/a", |_, _| "");
}

#[test]
#[should_panic(expected = "found `/{b}/x`: Insertion failed due to conflict")]
fn a_path_that_another_one_hides_is_refused() {
    let _ = routes::<()>().get("/{a}/x", |_, _| "").get("/{b}/x", |_, _| "");
}
