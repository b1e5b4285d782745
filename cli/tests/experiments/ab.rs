//! `ab` from the real binary: commands that speak TLS, and servers that run already.

use testkit::{Server, run};

use crate::{BINARY, Room};

/// The command of a server.
pub fn serve(service: &str, engine: &str) -> String {
    format!("{BINARY} serve {service} --engine {engine} --port 0")
}

#[test]
fn servers_over_tls_are_compared_without_their_names() {
    let room = Room::shared();
    let [cert, key] = room.folder.certify("a.org");
    let tls = format!("{{dir}}/www --tls-cert {cert} --tls-key {key}");
    let [old, new] = ["epoll", "prefork"]
        .map(|engine| serve("http", engine).replacen("http", &format!("http {tls}"), 1));
    let fail = "cpu > 9x old";
    let ended = run(&mut room.command(&["ab", &old, &new, "--budget", "3s", "--fail-if", fail]));
    ended.success().says("new speaks TLS, taken for HTTPS").says("at depth 1: new: ");
}

#[test]
fn servers_that_run_already_are_compared_where_they_are() {
    let room = Room::shared();
    std::fs::write(room.path().join("a.txt"), "a page").expect("the folder is writable");
    let root = room.path().display().to_string();
    let start = |engine: &str| {
        let mut command = std::process::Command::new(BINARY);
        Server::start(command.args(["serve", "http", &root, "--engine", engine, "--port", "0"]))
    };
    let (old, new) = (start("epoll"), start("prefork"));
    let [left, right] = [&old, &new].map(|server| server.address.to_string());
    let words = ["ab", &left, &right, "/a.txt", "--budget", "3s", "--out", "kept"];
    let ended = run(&mut room.command(&words)).success().says("new speaks HTTP");
    assert!(ended.out.contains("CPU per request"), "{}", ended.out);
    run(&mut room.command(&["ab", &left, &right, "--explain"])).exits(2);
    // The race leaves them alone.
    assert!(std::net::TcpStream::connect(new.address).is_ok());
}
