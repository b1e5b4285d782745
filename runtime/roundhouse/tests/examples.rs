//! Each example as a program, on engines of each container.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use roundhouse::{MessageKind, http, lines};
use sys::signal::Signal;
use testkit::{
    Folder, PATIENCE, Process, Server, eventually, example, has, has_uring, ms, program, run, skip,
    talk,
};
use wire::websocket::{EXAMPLE_REQUEST, Opcode, frames, put_masked};

/// Engines of every container: one loop, threads, processes, a process for each connection.
const ENGINES: [&str; 5] = ["epoll", "reactor", "prefork", "fork", "uring"];

/// Serves an example by each engine while `visit` has the server.
fn on_each(name: &str, engines: &[&str], visit: impl Fn(&Server, &str)) {
    let Some(path) = example(name) else { return };
    for engine in engines.iter().filter(|engine| **engine != "uring" || has_uring()) {
        let mut command = Command::new(&path);
        let server = Server::start(command.args(["--port", "0", "--engine", engine]));
        assert_eq!(
            (&server.ready["service"], &server.ready["engine"]),
            (&name.into(), &(*engine).into())
        );
        visit(&server, engine);
        server.stop();
    }
}

fn check(name: &str, engines: &[&str], input: &[u8], expected: &[u8]) {
    on_each(name, engines, |server, engine| {
        let heard = talk(server.address, &[input.to_vec()]).expect("a conversation");
        let heard = heard.escape_ascii().to_string();
        assert_eq!(heard, expected.escape_ascii().to_string(), "{name} on {engine}");
    });
}

#[test]
fn hello_greets() {
    check("hello", &ENGINES, b"you\n", b"hello, you\n");
    check("hello-raw", &["epoll"], b"you\n", b"hello, you\n");
}

/// Sends one text over WebSocket; the first message of the answer.
fn message(address: std::net::SocketAddr, text: &str) -> Vec<u8> {
    let mut sent = EXAMPLE_REQUEST.as_bytes().to_vec();
    put_masked(true, Opcode::Text, text.as_bytes(), [1, 2, 3, 4], &mut sent);
    let heard = talk(address, &[sent]).expect("a conversation");
    let head = heard.windows(4).position(|it| it == b"\r\n\r\n").expect("an answer") + 4;
    frames(&heard[head..]).next().expect("a message").1.to_vec()
}

#[test]
fn a_flag_or_a_call_makes_any_service_speak_websocket() {
    let Some(path) = example("hello") else { return };
    let server = Server::start(Command::new(path).args(["--port", "0", "--websocket"]));
    assert_eq!(message(server.address, "you"), b"hello, you\n");
    server.stop();
    let shout = lines(|line, reply| {
        reply.put(line.to_ascii_uppercase());
    });
    let server = roundhouse::Server::new(shout).websocket(MessageKind::Text.into());
    let server = server.engine("reactor").spawn().expect("a server");
    assert_eq!(message(server.address(), "you\nand me"), b"YOU\nAND ME\n");
    server.stop().expect("a drain");
}

#[test]
fn a_call_puts_tls_around_any_service() {
    if !has("curl") {
        return;
    }
    let folder = Folder::new();
    let [cert, key] = folder.certify("localhost");
    let engines = ["iterative", "thread", "reactor", "epoll", "uring"];
    for engine in engines.iter().filter(|engine| **engine != "uring" || has_uring()) {
        let hello = http(|_, response| {
            response.text("hello");
        });
        let server = roundhouse::Server::new(hello).engine(engine).tls(&cert, &key);
        let server = server.spawn().expect(engine);
        let url = format!("https://localhost:{}/", server.address().port());
        let heard = run(Command::new("curl").args(["-sS4", "--cacert", &cert, &url])).success().out;
        assert_eq!(heard, "hello", "{engine}");
        server.stop().expect(engine);
    }
    let server = roundhouse::Server::new(lines(|_, _| ())).tls(&cert, "nowhere");
    let why = server.spawn().err().expect("a refusal").to_string();
    assert!(why.contains("cannot read nowhere"), "{why}");
}

#[test]
fn kv_keeps_values_for_all_workers() {
    let talk = b"PING\r\nSET a xy\r\nINCR n\r\n*2\r\n$3\r\nget\r\n$1\r\na\r\nINCR a\r\nDEL a b\r\n\
        GET a\r\n";
    let heard =
        b"+PONG\r\n+OK\r\n:1\r\n$2\r\nxy\r\n-ERR expected a number with room for one more\r\n\
        :1\r\n$-1\r\n";
    check("kv", &ENGINES, talk, heard);
    if !has("redis-benchmark") || !has("redis-cli") {
        return;
    }
    on_each("kv", &ENGINES, |server, engine| {
        let port = server.port().to_string();
        let redis = |name: &str, words: &str| {
            let mut command = Command::new(program(name).expect("found above"));
            run(command.args(["-p", &port]).args(words.split(' '))).success().out
        };
        let load = "-t ping,set,get,incr -n 2000 -c 10 -P 4 -d 16 -r 100 -q";
        let done = redis("redis-benchmark", load);
        assert!(done.contains("INCR:") && !done.contains("ERR"), "{engine}: {done}");
        redis("redis-cli", "set sum 0");
        let mut counts = std::iter::repeat_with(|| redis("redis-cli", "incr sum"));
        assert_eq!(counts.nth(4).as_deref(), Some("5\n"), "{engine}");
    });
}

#[test]
fn chat_tells_the_others() {
    on_each("chat", &["epoll"], |server, _| {
        let enter = || {
            let client = TcpStream::connect(server.address).expect("a server");
            client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            BufReader::new(client)
        };
        let (mut one, mut two, mut line) = (enter(), enter(), String::new());
        one.read_line(&mut line).expect("a greeting");
        two.read_line(&mut line).expect("a greeting");
        one.get_mut().write_all(b"hi\n").expect("a server that reads");
        two.read_line(&mut line).expect("a line of the other");
        two.get_mut().write_all(b"ho\n").expect("a server that reads");
        one.read_line(&mut line).expect("a line of the other");
        assert_eq!(line, "welcome\nwelcome\nhi\nho\n");
    });
    let Some(chat) = example("chat") else { return };
    let refused = run(Command::new(chat).args(["--port", "0", "--engine", "prefork"]));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("one worker must have all sessions"), "{refused:?}");
}

#[test]
fn ticker_ticks() {
    on_each("ticker", &ENGINES, |server, engine| {
        let client = TcpStream::connect(server.address).expect("a server");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let times = BufReader::new(client).lines().take(3);
        let times: Vec<f32> = times.map(|it| it.expect("a tick").parse().expect("s")).collect();
        assert!(times[0] < times[1] && times[1] < times[2], "{engine}: {times:?}");
    });
}

#[test]
fn http_json_counts() {
    let request = "POST /visits HTTP/1.1\r\nHost: a\r\n\r\nGET /visits HTTP/1.1\r\nHost: a\r\n\r\n";
    on_each("http-json", &ENGINES, |server, engine| {
        let heard = talk(server.address, &[request.into()]).expect("a conversation");
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.starts_with("HTTP/1.1 201 Created\r\nDate: "), "{engine}: {heard}");
        assert_eq!(heard.matches("\r\n\r\n{\"visits\":1}").count(), 2, "{engine}: {heard}");
        if has("curl") {
            let url = format!("http://{}/visits", server.address);
            let curl = |words: &[&str]| run(Command::new("curl").args(["-s", &url]).args(words));
            assert_eq!(curl(&["-d", "x"]).success().out, "{\"visits\":2}", "{engine}");
            let head = curl(&["-I"]).success().out;
            assert!(head.contains("Content-Length: 12\r\n"), "{engine}: {head}");
        }
    });
}

/// A request to the example.
fn todo(line: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer open-sesame\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    text.into_bytes()
}

#[test]
fn todo_has_routes_a_login_and_events() {
    on_each("todo", &ENGINES, |server, engine| {
        let tea = r#"{"id":1,"text":"tea"}"#;
        let asked = [
            todo("POST /todo", r#"{"text":"tea"}"#),
            todo("GET /todo/1", ""),
            todo("GET /todo", ""),
            todo("DELETE /todo/1", ""),
            todo("GET /todo/1", ""),
        ];
        let heard = talk(server.address, &asked).expect("a conversation");
        let heard = String::from_utf8_lossy(&heard);
        let statuses = heard.split("HTTP/1.1 ").skip(1).map(|reply| &reply[..3]);
        assert_eq!(statuses.collect::<Vec<_>>(), ["201", "200", "200", "204", "404"], "{engine}");
        assert_eq!(heard.matches(tea).count(), 3, "{engine}: {heard}");
        let stranger = talk(server.address, &[b"GET / HTTP/1.0\r\n\r\n".to_vec()]);
        assert!(stranger.expect("a reply").starts_with(b"HTTP/1.1 401 "), "{engine}");
        let mut page = TcpStream::connect(server.address).expect("a server");
        page.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        page.write_all(&todo("GET /events", "")).expect("a server that reads");
        let mut events = BufReader::new(page).lines().map(|line| line.expect("a line"));
        assert!(events.any(|line| line == "data: 1 todos"), "{engine}");
        add_todo(server, 2);
        assert!(events.any(|line| line == "data: 2 todos"), "{engine}");
    });
}

/// Adds a todo, which gets this number.
fn add_todo(server: &Server, id: u32) {
    let post = todo("POST /todo", r#"{"text":"x"}"#);
    let heard = talk(server.address, &[post]).expect("a conversation");
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(heard.contains(&format!(r#"{{"id":{id},"#)), "{}: {heard}", server.ready);
}

/// The state passes from one run to the next, whatever their engines.
#[test]
fn a_file_keeps_the_state() {
    let Some(path) = example("todo") else { return };
    let folder = Folder::new();
    let file = folder.path().join("state").display().to_string();
    let serve = |path: &std::path::Path, engine: &str| {
        let mut command = Command::new(path);
        command.args(["--port", "0", "--state-file", &file, "--engine", engine]);
        command
    };
    let engines = ENGINES.iter().filter(|engine| **engine != "uring" || has_uring());
    for (engine, id) in engines.zip(1..) {
        let server = Server::start(&mut serve(&path, engine));
        add_todo(&server, id);
        server.stop();
    }
    let kept = std::fs::read(&file).expect("a state");
    std::fs::write(&file, &kept[..kept.len() / 2]).expect("our own file");
    let ended = run(&mut serve(&path, "epoll"));
    assert!(ended.code == Some(1) && ended.err.contains("checksum"), "{ended:?}");
    std::fs::write(&file, &kept).expect("our own file");
    let Some(other) = example("http-json") else { return };
    let ended = run(&mut serve(&other, "epoll"));
    assert!(ended.code == Some(1) && ended.err.contains("expected the state"), "{ended:?}");
    assert_eq!(std::fs::read(&file).expect("a state"), kept, "a refused file is as before");
}

/// Of two servers that share the state, the last one to end writes it.
#[test]
fn a_state_that_was_handed_over_is_written_by_the_last_server() {
    let Some(path) = example("todo") else { return };
    for engine in ["epoll", "prefork"] {
        let folder = Folder::new();
        let file = folder.path().join("state");
        let serve = |port: &str| {
            let mut command = Command::new(&path);
            command.args(["--port", port, "--engine", engine, "--upgradable", "--state-file"]);
            command.arg(&file);
            command
        };
        let mut server = Server::start(&mut serve(&testkit::free_port().to_string()));
        add_todo(&server, 1);
        server.signal(Signal::USR2);
        assert_eq!(server.succeeded(), Some(0), "{engine}");
        assert!(!file.exists(), "{engine}: the successor still changes the state");
        add_todo(&server, 2);
        server.stop();
        let server = Server::start(&mut serve("0"));
        add_todo(&server, 3);
        server.stop();
    }
}

/// A database in `folder`, by the rights of nobody if the tests have those of root, whom PostgreSQL
/// refuses.
fn database(folder: &Folder, port: &str) -> Option<Process> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders = debian.map(|version| version.path().join("bin"));
    let Some(bin) = folders.find(|bin| bin.join("initdb").exists()) else {
        skip("postgres");
        return None;
    };
    let data = folder.path().join("database").display().to_string();
    let is_root = run(Command::new("id").arg("-u")).success().out.trim() == "0";
    let command = |name: &str| {
        let program = bin.join(name);
        let mut command = Command::new(if is_root { "setpriv".into() } else { program.clone() });
        if is_root {
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
        }
        command.args(["-D", &data]).current_dir("/");
        command
    };
    if is_root {
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("our own");
        run(Command::new("install").args(["-d", "-m", "700", "-o", "nobody", &data])).success();
    }
    run(command("initdb").args(["-U", "postgres", "-A", "trust", "--no-sync"])).success();
    let words = ["-p", port, "-h", "127.0.0.1", "-k", "", "-F"];
    let database = Process::start(command("postgres").args(words));
    database.says("ready to accept connections");
    Some(database)
}

/// Slow functions share connections to a redis, a PostgreSQL and a server of files; when they are
/// gone, the client gets 500 and the server goes on.
#[test]
fn outside_talks_to_redis_postgresql_and_another_http_server() {
    let Some(path) = example("outside") else { return };
    let (folder, _) = Folder::with("text", "from outside");
    let [redis_port, api_port, port] = [(); 3].map(|()| testkit::free_port().to_string());
    if !has("redis-server") || !has("python3") {
        return;
    }
    let Some(mut database) = database(&folder, &port) else { return };
    let mut redis = Process::start(
        Command::new(program("redis-server").expect("found above"))
            .args(["--port", &redis_port, "--bind", "127.0.0.1", "--save", ""])
            .current_dir(folder.path()),
    );
    let mut api = Process::start(
        Command::new("python3")
            .args(["-m", "http.server", "--bind", "127.0.0.1", &api_port])
            .current_dir(folder.path()),
    );
    for port in [&redis_port, &api_port] {
        eventually("a server listens", PATIENCE, || {
            TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
        });
    }
    let ask = |server: &Server, lines: [&str; 4]| {
        let requests = lines.map(|line| {
            let (line, body) = line.split_once('|').unwrap_or((line, ""));
            let length = body.len();
            format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
        });
        let heard = talk(server.address, &[requests.concat().into_bytes()]).expect("replies");
        String::from_utf8_lossy(&heard).into_owned()
    };
    let mut servers = Vec::new();
    for (engine, id) in ["epoll", "amped", "reactor", "prefork", "thread"].into_iter().zip(1..) {
        let mut command = Command::new(&path);
        command.args(["--port", "0", "--engine", engine]);
        command.env("REDIS", format!("127.0.0.1:{redis_port}"));
        command.env("POSTGRES", format!("127.0.0.1:{port}"));
        let server = Server::start(command.env("API", format!("http://127.0.0.1:{api_port}")));
        let visit = format!("POST /visits/{engine}");
        let heard =
            ask(&server, [&visit, &visit, "POST /notes|{\"text\":\"tea\"}", "GET /texts/text"]);
        let bodies =
            heard.split("\r\n\r\n").skip(1).map(|it| it.split("HTTP/").next().unwrap_or(it));
        let note = format!("{{\"id\":\"{id}\",\"text\":\"tea\"}}");
        assert_eq!(bodies.collect::<Vec<_>>(), ["1", "2", &note, "from outside"], "{engine}");
        let notes = ask(&server, ["GET /notes"; 4]).matches(&note).count();
        assert_eq!(notes, 4, "{engine}");
        servers.push(server);
    }
    for other in [&mut redis, &mut api, &mut database] {
        other.kill();
    }
    for server in servers {
        let heard = ask(&server, ["POST /visits/x", "GET /notes", "GET /texts/x", "GET /notes"]);
        let failed = heard.matches("HTTP/1.1 500 ").count();
        assert_eq!((failed, heard.matches("internal error").count()), (4, 4), "{heard}");
        server.stop();
    }
}

#[test]
fn offloaded_work_delays_no_other_connection() {
    on_each("offload", &["epoll", "amped"], |server, engine| {
        let mut slow = TcpStream::connect(server.address).expect("a server");
        slow.write_all(b"1000\n").expect("a server that reads");
        std::thread::sleep(ms(20));
        let heard = talk(server.address, &[b"0\n".to_vec()]).expect("a conversation");
        assert_eq!(heard, b"slept 0 ms, job 1\n", "{engine}");
    });
}
