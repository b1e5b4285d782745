//! nginx and haproxy in front of every engine: kept connections, bodies of both framings,
//! `100 Continue` and large files. Requests may be ambiguous; a proxy and the server must always
//! count the same number of them.
//!
//! The proxies listen on sockets of the file system, so no test takes another's port. One process
//! of each proxy serves all engines.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::server::{Server, each, servers, servers_with};
use crate::site::{GREAT, great, site};
use testkit::{Folder, PATIENCE, Process, eventually, has, program, run};

/// A foreign proxy.
#[derive(Clone, Copy)]
struct Front {
    program: &'static str,
    config: fn(&Path, &[Server]) -> String,
    arguments: &'static [&'static str],
}

const NGINX: Front = Front {
    program: "nginx",
    config: nginx,
    arguments: &["-e", "stderr", "-p", "{room}", "-c", "{room}/nginx.conf"],
};

const HAPROXY: Front =
    Front { program: "haproxy", config: haproxy, arguments: &["-db", "-f", "{room}/haproxy.conf"] };

/// The socket at which a proxy listens for a server's requests.
fn socket(room: &Path, server: &Server) -> PathBuf {
    room.join(format!("{}.sock", server.name))
}

fn nginx(room: &Path, servers: &[Server]) -> String {
    let dir = room.display();
    let servers: String = servers
        .iter()
        .map(|server| {
            let (name, address, socket) = (&server.name, server.address, socket(room, server));
            format!(
                "upstream {name} {{ server {address}; keepalive 8; }}\nserver {{\n listen \
                 unix:{};\n location / {{ proxy_pass http://{name}; }}\n}}\n",
                socket.display()
            )
        })
        .collect();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("{what}_temp_path {dir}/{what};\n"))
        .collect();
    format!(
        "daemon off;\nmaster_process off;\npid {dir}/nginx.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_max_body_size 0;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_set_header Host $host;\n\
         proxy_request_buffering off;\nproxy_pass_header Server;\n{temporary}{servers}}}\n"
    )
}

fn haproxy(room: &Path, servers: &[Server]) -> String {
    let mut text = "global\n nbthread 1\ndefaults\n mode http\n option http-keep-alive\n \
                    http-reuse always\n timeout connect 20s\n timeout client 30s\n \
                    timeout server 30s\n"
        .to_owned();
    for server in servers {
        let (name, address) = (&server.name, server.address);
        text += &format!(
            "listen {name}\n bind {}\n server {name} {address}\n",
            socket(room, server).display()
        );
    }
    text
}

/// haproxy that names its clients by the PROXY protocol, as they do to it.
fn naming(room: &Path, servers: &[Server], version: &str) -> String {
    let lines = haproxy(room, servers);
    let lines = lines.lines().map(|line| match line.split_whitespace().next() {
        Some("bind") => format!("{line} accept-proxy\n"),
        // The header of a health check speaks for haproxy itself (LOCAL).
        Some("server") => format!("{line} {version} check inter 100ms\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

impl Front {
    /// Starts the proxy for all servers, and waits until each socket exists.
    fn start(self, room: &Folder, servers: &[Server]) -> Process {
        let name = format!("{}.conf", self.program);
        room.file(&name, (self.config)(room.path(), servers).as_bytes());
        let folder = room.path().to_str().expect("a temporary path is text");
        let mut command = Command::new(program(self.program).expect("it was looked for"));
        command.args(self.arguments.iter().map(|word| word.replace("{room}", folder)));
        let beside = Process::start(&mut command);
        eventually("the proxy listens", PATIENCE, || {
            servers.iter().all(|server| UnixStream::connect(socket(room.path(), server)).is_ok())
        });
        beside
    }
}

/// curl through the proxy: one process, one connection to it.
fn curl(room: &Folder, server: &Server, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--http1.1", "--max-time", "50", "--unix-socket"]);
    command.arg(socket(room.path(), server)).args(args);
    run(&mut command).success().bytes
}

fn every_engine_behind(front: Front) {
    if !has(front.program) || !has("curl") {
        return;
    }
    let (site, room) = (site(), Folder::new());
    let whole = great();
    let upload = format!("@{}", site.file("upload", &whole[..1 << 20]).display());
    let much = format!("@{}", site.file("much", &whole[..3 << 20]).display());
    let known = site.path().join("a.txt").display().to_string();
    let servers = servers(&site);
    let proxy = front.start(&room, &servers);
    each(&servers, |server| {
        let curl = |args: &[&str]| curl(&room, server, args);
        let five = ["http://a/plaintext"; 5];
        assert_eq!(curl(&five), b"Hello, World!".repeat(5));
        assert_eq!(curl(&five), b"Hello, World!".repeat(5));
        assert!(curl(&["http://a/great"]) == whole);
        let tail = format!("Range: bytes={}-", GREAT - 9);
        assert_eq!(curl(&["-H", &tail, "http://a/great"]), whole[GREAT - 9..]);
        for more in ["Expect: 100-continue", "Transfer-Encoding: chunked", "Expect:"] {
            let sent = curl(&["--data-binary", &upload, "-H", more, "http://a/"]);
            assert!(sent == whole[..1 << 20], "{more}: {} bytes came back", sent.len());
        }
        let code = |args: &[&str]| {
            let both = [&["-o", "/dev/null", "-w", "%{http_code}"], args].concat();
            String::from_utf8_lossy(&curl(&both)).into_owned()
        };
        assert_eq!(code(&["--head", "http://a/great"]), "200");
        assert_eq!(code(&["-z", &known, "http://a/a.txt"]), "304");
        assert_eq!(code(&["http://a/none"]), "404");
        assert_eq!(code(&["-X", "PUT", "-d", "abc", "http://a/"]), "405");
        // The server refuses too large a body while it is still arriving.
        assert_eq!(code(&["--data-binary", &much, "-H", "Expect:", "http://a/"]), "413");
        assert_eq!(curl(&five), b"Hello, World!".repeat(5));
    });
    // Connections were kept: a refusal ended one, and all other requests used a few.
    for server in servers {
        let (name, said) = (server.name.clone(), server.close());
        let count = said.split("stopped after ").nth(1).and_then(|rest| rest.split(' ').next());
        let count: u32 = count.and_then(|word| word.parse().ok()).expect("a number");
        assert!((1..=6).contains(&count), "{name} was connected to {count} times: {said}");
    }
    drop(proxy);
}

#[test]
fn every_engine_behind_nginx() {
    every_engine_behind(NGINX);
}

#[test]
fn every_engine_behind_haproxy() {
    every_engine_behind(HAPROXY);
}

#[test]
fn haproxy_names_its_clients_to_every_engine() {
    if !has(HAPROXY.program) {
        return;
    }
    let (site, rooms) = (site(), [Folder::new(), Folder::new()]);
    let log = |name: &str| rooms[0].path().join(format!("{name}.log")).display().to_string();
    let flags = |name: &str| {
        let log = log(name);
        let flags = ["--proxy-protocol", "127.0.0.0/8", "--access-log", log.as_str()];
        flags.map(str::to_owned).to_vec()
    };
    let servers = servers_with(&site, flags);
    let first: fn(&Path, &[Server]) -> String = |room, all| naming(room, all, "send-proxy");
    let second: fn(&Path, &[Server]) -> String = |room, all| naming(room, all, "send-proxy-v2");
    for (config, room) in [first, second].into_iter().zip(&rooms) {
        let proxy = Front { config, ..HAPROXY }.start(room, &servers);
        each(&servers, |server| {
            let get = "GET /plaintext HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let header = "PROXY TCP4 192.0.2.7 192.0.2.8 5 80\r\n";
            let heard =
                exchange(&socket(room.path(), server), (header.to_owned() + get).as_bytes());
            assert!(heard.ends_with("\r\n\r\nHello, World!"), "{heard}");
        });
        drop(proxy);
    }
    for server in servers {
        let path = log(&server.name);
        server.close();
        let text = std::fs::read_to_string(path).expect("the log");
        // A health check that is reset before a ring asks for its peer has none (`local`).
        let is_known = |line: &&str| !line.starts_with("local ");
        let known: Vec<&str> = text.lines().filter(is_known).collect();
        let is_named = known.iter().all(|line| line.starts_with("192.0.2.7 - - ["));
        assert!(known.len() == 2 && is_named, "{text}");
    }
}

/// Texts in which a lenient reader and a strict one count different numbers of requests. Each
/// mentions `/hidden`, which is a request to only one of them.
const TWO_MEANINGS: &[&str] = &[
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n\
     0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n\
     25\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n...\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 40\r\n\r\n\
     helloGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-encoding: x\r\n\r\n\
     0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n\
     0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\nContent-Length: 5\r\n\r\n\
     0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
     1;a\nx\r\nZ\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
     1\r\nZZ\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
     0\r\nContent-Length: 30\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /plaintext HTTP/1.1\r\nHost: a\r\nX: y\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /plaintext HTTP/1.1\nHost: a\n\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /plaintext HTTP/1.1\r\nHost: a\r\n X: y\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /plaintext HTTP/1.1\r\nHost: a\r\nContent-Length: 39\r\nExpect: 100-continue\r\n\r\n\
     GET /hidden HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
    "GET /plaintext HTTP/1.1\r\nHost: a\r\nContent_Length: 38\r\n\r\n\
     GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /plaintext HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\
     \r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhelloGET /hidden HTTP/1.1\r\nHost: \
     a\r\n\r\n",
];

/// Sends bytes to a proxy and returns all that comes back.
fn exchange(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).expect("the proxy listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut heard = Vec::new();
    // A refused client may be closed before everything is sent or read.
    let _ = stream.write_all(bytes);
    let _ = stream.read_to_end(&mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

fn one_meaning_behind(front: Front) {
    if !has(front.program) {
        return;
    }
    let (site, room) = (site(), Folder::new());
    let log = room.path().join("access.log");
    let path = log.to_str().expect("a temporary path is text");
    let server = Server::open("epoll", &site, &["--access-log", path, "--body-grace", "1s"]);
    let servers = [server];
    let proxy = front.start(&room, &servers);
    let socket = socket(room.path(), &servers[0]);
    let last = "GET /json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut counts = Vec::new();
    for text in TWO_MEANINGS {
        let heard = exchange(&socket, format!("{text}{last}").as_bytes());
        counts.push(heard.matches("erver: roundhouse").count());
        // The next client is served in any case, on a clean connection.
        let next = exchange(&socket, last.as_bytes());
        assert!(next.ends_with("{\"message\":\"Hello, World!\"}"), "after {text:?}: {next}");
        counts.push(1);
    }
    // Bytes that the proxy delays for a moment are not part of any answer.
    std::thread::sleep(Duration::from_millis(100));
    let [server] = servers;
    server.close();
    let text = std::fs::read_to_string(&log).expect("the log");
    let answered: usize = counts.iter().sum();
    assert_eq!(text.lines().count(), answered, "{counts:?}\n{text}");
    drop(proxy);
}

#[test]
fn nginx_and_we_count_the_same_requests() {
    one_meaning_behind(NGINX);
}

#[test]
fn haproxy_and_we_count_the_same_requests() {
    one_meaning_behind(HAPROXY);
}
