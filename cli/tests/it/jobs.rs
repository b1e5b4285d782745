//! Slow steps: the clients that are served, and those that wait, while some steps block.

use crate::arms::Arm;
use crate::harness::{Client, Plan, Server, ms};

/// The slow steps that run at once if there are helpers for them.
const SLOW: usize = 3;

fn serve(arm: &Arm) -> Server {
    Plan::new(arm, "http").with(&["--demo"]).start()
}

/// Sends a request and does not wait for the answer.
fn ask(server: &Server, target: &str) -> Client {
    let mut client = server.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

#[track_caller]
fn check_answered(client: &mut Client) {
    assert_eq!(client.line(), "HTTP/1.1 200 OK\r");
}

/// Several steps block for seconds; other clients are served long before those end.
pub fn others_are_served_meanwhile(arm: &Arm) {
    let server = serve(arm);
    let mut slow: Vec<Client> = (0..SLOW).map(|_| ask(&server, "/sleep?ms=4000")).collect();
    std::thread::sleep(ms(100));
    for _ in 0..20 {
        check_answered(&mut ask(&server, "/plaintext"));
    }
    assert!(slow.iter().all(Client::hears_nothing), "a slow step was over first");
    slow.iter_mut().for_each(check_answered);
}

/// One step blocks, and other clients wait until it is over.
pub fn others_wait_meanwhile(arm: &Arm) {
    let server = serve(arm);
    let mut slow = ask(&server, "/sleep?ms=800");
    std::thread::sleep(ms(100));
    let mut other = ask(&server, "/plaintext");
    check_answered(&mut other);
    assert!(!slow.hears_nothing(), "served although the only worker was asleep");
    check_answered(&mut slow);
}
