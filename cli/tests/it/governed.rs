//! The governor: under overload requests beyond the limit are refused in the words of the protocol,
//! the books balance, and the server recovers.

use std::thread;

use crate::arms::Arm;
use crate::harness::{Client, PATIENCE, Plan, eventually, ms};
use crate::status::Told;

/// Requests of each client.
const ASKED: u64 = 40;

/// Asks once on a connection that stays; whether the request was executed.
fn is_served(client: &mut Client) -> bool {
    client.send("GET /work?ms=5 HTTP/1.1\r\nHost: a\r\n\r\n");
    let status = client.line();
    let (mut len, mut retries) = (0, false);
    loop {
        let field = client.line().to_ascii_lowercase();
        match field.trim_end().split_once(": ") {
            Some(("content-length", text)) => len = text.parse().expect("a length"),
            Some(("connection", word)) => assert_ne!(word, "close", "{status}"),
            Some(("retry-after", seconds)) => retries = seconds == "1",
            Some(_) => {}
            None => break,
        }
    }
    client.exact(len);
    match status.trim_end() {
        "HTTP/1.1 200 OK" => true,
        "HTTP/1.1 503 Service Unavailable" => {
            assert!(retries, "a refusal says when to try again");
            false
        }
        other => panic!("expected 200 or 503, found {other}"),
    }
}

/// More clients than any limit for short requests ask as fast as they can.
pub fn an_overload_is_refused(arm: &Arm) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let flags = ["--demo", "--governor", "on", "--deadline", "50ms"];
    let told = Told::start(Plan::new(arm, "http").with(&flags));
    let mut clients: Vec<Client> = (0..16 * cores + 8).map(|_| told.server.client()).collect();
    let counts: Vec<u64> = thread::scope(|scope| {
        let ask = |client: &mut Client| (0..ASKED).filter(|_| is_served(client)).count() as u64;
        let asking: Vec<_> = clients.iter_mut().map(|it| scope.spawn(move || ask(it))).collect();
        asking.into_iter().map(|it| it.join().expect("a client")).collect()
    });
    let (served, asked) = (counts.iter().sum::<u64>(), ASKED * clients.len() as u64);
    assert!(0 < served && served < asked, "{served} of {asked} were executed");
    eventually("the books balance", PATIENCE, || {
        let status = told.status();
        let refused = status["governor"]["refused"].as_u64() == Some(asked - served);
        refused && status["totals"]["answered"].as_u64() == Some(asked)
    });
    let words = told.ask("GET", "/governor");
    assert!(words.contains("the limit is"), "{words}");
    eventually("it recovers", PATIENCE, || {
        thread::sleep(ms(10));
        (0..10).all(|_| is_served(&mut clients[0]))
    });
    drop(clients);
    told.server.stop().says("0 workers replaced");
}
