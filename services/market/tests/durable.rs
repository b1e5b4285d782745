//! The example, which a program of the library could be: killed by SIGKILL with orders under way
//! and started again, it has every order that it answered, once.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use market::history;
use sys::signal::Signal;
use testkit::{Folder, PATIENCE, Server, example};

const LEFT: u64 = 1000;
const LIVES: u64 = 3;
/// Orders that are answered in each life, and those that are under way at its end.
const ANSWERED: u64 = 100;
const UNDER_WAY: u64 = 50;

fn start(program: &Path, data: &Path, engine: &str) -> Server {
    let flags = ["--port", "0", "--admin", "none", "--engine", engine, "--data"];
    Server::start(Command::new(program).args(flags).arg(data))
}

/// A client that numbers its orders.
struct Client(BufReader<TcpStream>);

impl Client {
    fn of(server: &Server) -> Client {
        let stream = TcpStream::connect(server.address).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Client(BufReader::new(stream))
    }

    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).expect("it is open");
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        let mut reply = String::new();
        self.0.read_line(&mut reply).expect("a reply");
        reply
    }

    fn order(&mut self, number: u64) -> String {
        self.ask(&format!("sell 1 1 #{number}"))
    }
}

fn check(engine: &str) {
    let Some(program) = example("durable") else { return };
    let (_folder, data) = Folder::with("stock.txt", format!("1 {LEFT} 10\n"));
    let mut replies: Vec<(u64, String)> = Vec::new();
    for life in 0..LIVES {
        let server = start(&program, &data, engine);
        assert_eq!(server.ready["durability"], "sync");
        let mut client = Client::of(&server);
        for (number, reply) in &replies {
            assert_eq!(client.order(*number), *reply, "{engine}: #{number} was answered");
        }
        let first = life * (ANSWERED + UNDER_WAY) + 1;
        replies.extend((first..first + ANSWERED).map(|number| (number, client.order(number))));
        for number in first + ANSWERED..first + ANSWERED + UNDER_WAY {
            client.send(&format!("sell 1 1 #{number}"));
        }
        server.signal(Signal::KILL);
        server.ended(PATIENCE);
    }
    let log = data.with_extension("txt.log");
    let server = start(&program, &data, engine);
    let shown = Client::of(&server).ask("show");
    server.stop();
    let (after, orders) = history::orders(&log).expect("a log");
    assert_eq!(shown, format!("1 {} 10\n", LEFT + orders.len() as u64), "{engine}: one share each");
    for (number, reply) in &replies {
        let mut found = orders.iter().filter(|order| order.request == *number);
        let seq = found.next().map_or(0, |order| order.seq);
        assert_eq!(*reply, format!("[sell] success @{seq}\n"), "{engine}: #{number}");
        assert!(found.next().is_none(), "{engine}: #{number} is there twice");
    }
    assert_eq!((after, replies.len() as u64), (0, LIVES * ANSWERED));
}

#[test]
fn every_answered_order_is_found_after_a_kill() {
    ["epoll", "prefork"].into_iter().for_each(check);
}
