//! Generators that people use: wrk, ab and h2load find no error with any engine.

use std::process::Command;

use crate::house::{House, each, houses};
use crate::room::Room;
use crate::tools::{done, has};

/// Connections that an engine serves at one time, as far as these tests ask for it.
fn crowd(house: &House) -> &'static str {
    if house.name == "iterative" { "1" } else { "4" }
}

#[test]
fn wrk_with_every_engine() {
    if !has("wrk") {
        return;
    }
    let site = Room::site();
    let houses = houses(&site);
    each(&houses, |house| {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t", "1", "-d", "1s", "-c", crowd(house), &house.url("/json")]);
        let said = done(&mut wrk).text();
        let bad = ["Socket errors", "Non-2xx"].iter().any(|word| said.contains(word));
        let count = said.lines().find_map(|line| line.trim().split_once(" requests in "));
        let count: u32 = count.and_then(|(count, _)| count.parse().ok()).unwrap_or(0);
        assert!(!bad && count > 0, "{}: {said}", house.name);
    });
    houses.into_iter().for_each(|house| drop(house.close()));
}

#[test]
fn ab_with_every_engine() {
    if !has("ab") {
        return;
    }
    let site = Room::site();
    let houses = houses(&site);
    each(&houses, |house| {
        // With a connection for each request and with few for all, of HTTP/1.0 both.
        for keep in [&[][..], &["-k"]] {
            let mut ab = Command::new("ab");
            ab.args(["-q", "-s", "30", "-n", "200", "-c", crowd(house)]).args(keep);
            let said = done(ab.arg(house.url("/a.txt"))).text();
            let number = |name: &str| -> Option<u32> {
                let rest = said.lines().find_map(|line| line.strip_prefix(name))?;
                rest.split_whitespace().next()?.parse().ok()
            };
            let counts = ["Complete requests:", "Failed requests:"].map(number);
            assert_eq!(counts, [Some(200), Some(0)], "{} {keep:?}: {said}", house.name);
            let kept = number("Keep-Alive requests:").unwrap_or(0);
            assert_eq!(kept, if keep.is_empty() { 0 } else { 200 }, "{}: {said}", house.name);
            assert!(!said.contains("Non-2xx"), "{}: {said}", house.name);
        }
    });
    houses.into_iter().for_each(|house| drop(house.close()));
}

#[test]
fn h2load_with_every_engine() {
    if !has("h2load") {
        return;
    }
    let site = Room::site();
    let houses = houses(&site);
    each(&houses, |house| {
        // Eight requests of each connection are under way together.
        let mut h2load = Command::new("h2load");
        h2load.args(["--h1", "-t", "1", "-n", "400", "-m", "8", "-c", crowd(house)]);
        let said = done(h2load.arg(house.url("/plaintext"))).text();
        let wanted = "400 total, 400 started, 400 done, 400 succeeded, 0 failed, 0 errored";
        assert!(said.contains(wanted), "{}: {said}", house.name);
    });
    houses.into_iter().for_each(|house| drop(house.close()));
}
