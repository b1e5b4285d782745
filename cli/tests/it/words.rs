//! Messages of a server while it works: `--verbose`, `--timer`, the line on stdout.

use crate::arms::Arm;
use crate::harness::ms;

/// Each connection and each request, in the words of the course.
pub fn verbose(arm: &Arm) {
    let server = arm.book("1 10 100\n").with(&["--verbose", "--work", "5us"]).start();
    server.says("steps, here about");
    let mut client = server.client();
    client.send("show\n");
    client.block();
    server.says(&format!("Connected to (127.0.0.1, {})\n", client.port()));
    server.says("server received 5 bytes\n");
    assert_eq!(client.ask("buy 1 1"), "[buy] success");
    server.says("server received 8 bytes\n");
    client.send("sell 1 12\r\nexit\n");
    client.rest();
    server.says("server received 11 bytes\n");
    drop(client);
    let ended = server.stop();
    assert_eq!(ended.err.matches("server received").count(), 4, "{}", ended.err);
}

/// Without `--verbose` the server prints nothing about connections.
pub fn silent_by_default(arm: &Arm) {
    let server = arm.book("1 10 100\n").start();
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    let ended = server.stop();
    let words = ["Connected", "received", "elapsed"];
    assert!(!words.iter().any(|word| ended.err.contains(word)), "{}", ended.err);
    assert!(ended.err.contains("stopped after 1 connections"), "{}", ended.err);
}

/// The seconds from the first connection to the last disconnect, once each time.
pub fn timer(arm: &Arm) {
    let server = arm.book("1 10 100\n").with(&["--timer"]).start();
    let seconds = |said: &str| -> Vec<f64> {
        // An incomplete line is read again later.
        let lines = said.split_inclusive('\n').filter_map(|line| line.strip_suffix(" s\n"));
        let times = lines.filter_map(|line| line.strip_prefix("elapsed time: "));
        times.map(|time| time.parse().expect("seconds")).collect()
    };
    for round in 1..=2 {
        let mut clients: Vec<_> = (0..arm.crowd(3)).map(|_| server.client()).collect();
        for client in &mut clients {
            assert_eq!(client.ask("sell 1 1"), "[sell] success");
        }
        std::thread::sleep(ms(300));
        drop(clients);
        server.says("elapsed time: ");
        crate::harness::eventually("one time for each crowd", crate::harness::PATIENCE, || {
            seconds(&server.err()).len() == round
        });
        let last = seconds(&server.err())[round - 1];
        assert!((0.28..10.0).contains(&last), "found {last} s after 300 ms");
    }
}
