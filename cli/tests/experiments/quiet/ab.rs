//! `ab` from the real binary: two commands, and two servers that run already.

use lab::verdict::Summary;
use testkit::{Server, has, run};

use crate::{BINARY, Room};

fn serve(service: &str, engine: &str) -> String {
    format!("{BINARY} serve {service} --engine {engine} --port 0")
}

#[test]
fn a_costlier_command_fails_the_gate_and_its_protocol_is_found_out() {
    if !has("strace") {
        return;
    }
    let room = Room::alone();
    // A traced server costs several times as much, however busy the machine is.
    let old = serve("stock", "epoll") + " --data {dir}/stock.txt";
    let new = format!("strace -f -o /dev/null {old}");
    let words = ["ab", &old, &new, "--budget", "6s", "--fail-if", "new cpu > 1.2x old", "--json"];
    let ended = run(&mut room.command(&words)).exits(99).says("old speaks the stock market");
    let found: Summary = serde_json::from_str(&ended.out).expect("one JSON document");
    assert!(found.sentence.starts_with("`new` "), "{}", found.sentence);
    let costs_more = ["more CPU time per request", "the CPU time per request"];
    assert!(costs_more.iter().any(|words| found.sentence.contains(*words)), "{}", found.sentence);
    assert!(room.text("report.html").contains("old"));
}

#[test]
fn servers_over_tls_are_compared_without_their_names() {
    let room = Room::shared();
    let made = rcgen::generate_simple_self_signed(["a.org".to_owned()]).expect("a good name");
    let path = |name: &str, text: String| {
        std::fs::write(room.path().join(name), text).expect("the folder is writable");
        room.path().join(name).display().to_string()
    };
    let cert = path("cert.pem", made.cert.pem());
    let key = path("key.pem", made.signing_key.serialize_pem());
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
