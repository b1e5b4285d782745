//! Acts that the trials of a check-up and those of a grade share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs `count` clients, each with its number and a flag that is set when `act` has ended; returns
/// the results of both.
///
/// # Panics
/// A client panics.
pub fn alongside<T: Send, A>(
    count: usize,
    client: impl Fn(usize, &AtomicBool) -> T + Sync,
    act: impl FnOnce() -> A,
) -> (A, Vec<T>) {
    let (client, is_over) = (&client, &AtomicBool::new(false));
    thread::scope(|scope| {
        let start = |at| scope.spawn(move || client(at, is_over));
        let clients: Vec<_> = (0..count).map(start).collect();
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        let told = clients.into_iter().map(|it| it.join().expect("a client does not panic"));
        (done, told.collect())
    })
}

/// The command of this program that makes one trial of a server again.
pub fn again(command: &str, server: &str, trial: &str, more: &[String]) -> String {
    let words = ["roundhouse", command, server, "--only", trial].into_iter();
    shlex::try_join(words.chain(more.iter().map(String::as_str))).unwrap_or_default()
}
