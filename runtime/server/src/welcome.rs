//! The lines of a server that a person has started on a terminal: its address, and what to try.

use std::fmt::Write as _;

use engines::{Address, Shape, Started};
use language::level::is_quiet;

/// The lines for a server that is ready. In `tries`, what to try, `{at}` stands
/// for the address, `{ip}` and `{port}` for its parts.
pub(crate) fn welcome(service: &str, tries: &[&str], shape: &Shape, ready: &Started) -> String {
    let engine = shape.name().map_or_else(|| shape.to_string(), str::to_owned);
    let workers =
        if shape.workers == 1 { "1 worker" } else { &format!("{} workers", shape.workers) };
    let pid = std::process::id();
    let mut text = format!("{service} on {}: {engine}, {workers}, pid {pid}\n", ready.places());
    if is_quiet() {
        return language::tr(&text).into_owned();
    }
    if let Address::Net(mut at) = ready.listening.clone() {
        if at.ip().is_unspecified() {
            at.set_ip(if at.is_ipv6() {
                [0, 0, 0, 0, 0, 0, 0, 1].into()
            } else {
                [127, 0, 0, 1].into()
            });
        }
        for line in tries {
            let parts = [("{at}", at.to_string()), ("{ip}", at.ip().to_string())];
            let parts = parts.into_iter().chain([("{port}", at.port().to_string())]);
            let line =
                parts.fold((*line).to_owned(), |line, (hole, value)| line.replace(hole, &value));
            let _ = writeln!(text, "  try    {line}");
        }
    }
    text += &format!("  watch  roundhouse top {pid}\n  stop   Ctrl-C; twice to cut connections\n");
    language::tr(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_where_it_is_and_what_to_try() {
        let shape = Shape::preset("epoll", 2).expect("an engine");
        let check = |listening: Address, expected: &str| {
            let text = welcome(
                "http",
                &["open http://{at}/", "nc {ip} {port}"],
                &shape,
                &Started { listening, also: Vec::new() },
            );
            assert!(text.contains(expected) && text.contains("epoll, 1 worker, pid"), "{text}");
            assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        };
        let net = |text: &str| Address::Net(text.parse().expect("an address"));
        check(net("127.0.0.1:8080"), "\n  try    open http://127.0.0.1:8080/\n");
        check(net("0.0.0.0:80"), "open http://127.0.0.1:80/\n");
        check(net("[::]:80"), "open http://[::1]:80/\n  try    nc ::1 80\n");
        check(Address::Unix("/run/a".into(), None), "http on unix:/run/a: epoll");
    }
}
