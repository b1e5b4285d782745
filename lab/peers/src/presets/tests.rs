//! Facts about presets: the configuration they write, and that installed servers accept it.

use super::*;
use lab::server::{LOCALHOST, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use testkit::Folder;

/// The directory of one test, with what servers need.
fn room() -> Folder {
    let room = Folder::new();
    std::fs::create_dir(room.path().join("www")).expect("it is ours");
    room.file("www/index.html", "hello");
    room.file("stock.txt", "1 10 100\n2 5 50\n");
    // If root starts them, nginx and Apache serve as another user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(room.path(), open).expect("it is ours");
    room
}

fn arm(name: &str, directives: &str, room: &Folder, service: Service) -> Result<Arm> {
    let cache = room.path().join("cache");
    let site = Site { exe: Path::new("roundhouse"), service, cache: &cache };
    preset(name, &toml::from_str(directives).expect("directives"), &site)
}

fn text(arm: &Arm) -> String {
    let files: Vec<&str> = arm.files.iter().map(|file| file.text.as_str()).collect();
    format!("{}\n{}\n{}", arm.command.join(" "), arm.target, files.join("\n"))
}

#[test]
fn directives_have_the_last_word() {
    fn check(name: &str, service: Service, directives: &str, want: &[&str]) {
        let room = room();
        let found = text(&arm(name, directives, &room, service).expect("a preset"));
        for want in want {
            assert!(found.contains(want), "{name}: expected `{want}` in\n{found}");
        }
    }
    let nginx = "worker_processes = 4\nkeepalive_timeout = '5s'\nmulti_accept = true";
    let want = ["\nworker_processes 4;", "    multi_accept on;", "    keepalive_timeout 5s;"];
    check("nginx", Service::Web, nginx, &want);
    let apache = "minsparethreads = 25\nThreadsPerChild = 50";
    let want = ["mpm_worker_module", "MinSpareThreads 25", "ThreadsPerChild 50"];
    check("apache-worker", Service::Web, apache, &want);
    check("apache-prefork", Service::Web, "", &["MaxSpareServers 10", "mpm_prefork"]);
    check("redis", Service::Stock, "io-threads = 2", &["--io-threads 2", "--save  --append"]);
    let want = ["--engine uring", "timeout client 60s", "127.0.0.1:${BACK}"];
    check("haproxy", Service::Stock, "back = 'uring'", &want);
    let want =
        ["serve http {dir}/www --host 127.0.0.1 --port 0 --engine epoll", "http://{address}/"];
    check("haproxy", Service::Web, "back = 'epoll'", &want);
}

#[test]
fn what_cannot_be_says_why() {
    fn check(name: &str, service: Service, directives: &str, want: &str) {
        let room = room();
        let found = arm(name, directives, &room, service).expect_err("it cannot be").to_string();
        assert!(found.contains(want), "{name}: {found}");
    }
    check("iis", Service::Web, "", "expected a server out of nginx, apache-prefork");
    check("nginx", Service::Stock, "", "nginx does not serve stock");
    check("tokio", Service::Web, "", "tokio does not serve web");
    check("nginx", Service::Web, "a = { b = 1 }", "expected a text");
    check("nginx", Service::Web, "a = \"x;\\n y\"", "on one line");
    check("haproxy", Service::Stock, "back = 'a; b'", "the name of an engine");
}

/// Starts the arm, sends `request`, returns the reply of the next two seconds, and stops it. `None`
/// if the server is not installed.
fn asked(arm: &Arm, room: &Folder, request: &str) -> Option<String> {
    let program = lab::record::Program::of(arm);
    if program.hash.is_empty() {
        eprintln!("skipped: {} is not installed", arm.command[0]);
        return None;
    }
    let deadline = Duration::from_secs(20);
    let server =
        Server::boot((LOCALHOST, 0), &[], arm, room.path(), "server", deadline).expect("it starts");
    let mut peer = TcpStream::connect(&server.address).expect("it listens");
    peer.set_read_timeout(Some(Duration::from_secs(2))).expect("a valid time");
    peer.write_all(request.as_bytes()).expect("it reads");
    let mut said = Vec::new();
    // The timeout ends the read; bytes received before it count.
    let _ = peer.read_to_end(&mut said);
    drop(peer);
    let ended = server.process.stop(deadline);
    assert!(ended.clean, "{}: {ended:?}", arm.name);
    Some(String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn web_servers_serve_the_page() {
    let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for name in ["nginx", "apache-prefork", "apache-worker", "apache-event"] {
        let room = room();
        let arm = arm(name, "", &room, Service::Web).expect("a preset");
        let Some(said) = asked(&arm, &room, request) else { continue };
        assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("hello"), "{name}: {said}");
    }
}

#[test]
fn redis_counts() {
    let room = room();
    let arm = arm("redis", "", &room, Service::Stock).expect("a preset");
    let Some(said) = asked(&arm, &room, "INCR stock\r\nINCR stock\r\nQUIT\r\n") else { return };
    assert!(said.starts_with(":1\r\n:2\r\n"), "{said}");
}

#[test]
fn markets_in_other_languages_answer_as_ours_does() {
    for name in ["go", "node", "java"] {
        let room = room();
        let arm = match arm(name, "", &room, Service::Stock) {
            Ok(arm) => arm,
            Err(why) => {
                assert!(why.to_string().ends_with("or leave this arm out"), "{why:#}");
                eprintln!("skipped: {name}: {why:#}");
                continue;
            }
        };
        let request = "show\nbuy 1 4\nbuy 1 7\nsell 2 1\nsell 9 1\nshow\nexit\n";
        let Some(said) = asked(&arm, &room, request) else { continue };
        let lines: Vec<&str> = said.lines().collect();
        let want = ["1 10 100", "2 5 50", "", "[buy] success", "Not enough left stocks"];
        assert_eq!(lines[..5], want, "{name}");
        assert_eq!(lines[5], "[sell] success", "{name}");
        assert!(lines[6].starts_with("error: "), "{name}: {said}");
        assert_eq!(lines[7..], ["1 6 100", "2 6 50", ""], "{name}");
    }
}
