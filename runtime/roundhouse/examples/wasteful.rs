//! Answers each line, and wastes on it what the variable `WASTE` names: `calls`, `switches`,
//! `wakes`, `allocations` or `code` (`code:400` for 400 additions, else 20,000). Race it against
//! itself without waste and let `roundhouse explain` find out.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, Once, OnceLock};

use roundhouse::prelude::*;

/// The way to a helper thread, which sends each byte back. No thread wakes another by a futex.
fn helper() -> UnixStream {
    let (here, mut there) = UnixStream::pair().expect("two descriptors");
    std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    here
}

/// Gives the turn to the other thread, `true` or `false`, and waits for it to come back.
fn pass(to: bool) {
    static TURN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    let mut turn = TURN.0.lock().expect("no thread panics while it holds this");
    *turn = to;
    TURN.1.notify_one();
    drop(TURN.1.wait_while(turn, |turn| *turn == to));
}

fn main() -> ExitCode {
    static PARTNER: Once = Once::new();
    static HELPER: OnceLock<UnixStream> = OnceLock::new();
    let waste = std::env::var("WASTE").unwrap_or_default();
    let additions: u64 = match waste.strip_prefix("code") {
        Some(count) => count.trim_start_matches(':').parse().unwrap_or(20_000),
        None => 0,
    };
    let wasteful = lines(move |_, reply| {
        match waste.as_str() {
            "calls" => {
                for _ in 0..40 {
                    black_box(std::os::unix::process::parent_id());
                }
            }
            "allocations" => (0..400).for_each(|it| drop(black_box(Box::new(black_box(it))))),
            "switches" => {
                let mut helper = HELPER.get_or_init(helper);
                let mut byte = [1];
                for _ in 0..5 {
                    let is_back =
                        helper.write_all(&byte).and_then(|()| helper.read_exact(&mut byte));
                    black_box(is_back.is_ok());
                }
            }
            "wakes" => {
                PARTNER.call_once(|| {
                    drop(std::thread::spawn(|| {
                        loop {
                            pass(false)
                        }
                    }))
                });
                (0..5).for_each(|_| pass(true));
            }
            _ => {
                black_box((0..additions).fold(1, |sum, it| sum ^ black_box(it)));
            }
        }
        reply.put("done");
    });
    roundhouse::main(wasteful.constant())
}
