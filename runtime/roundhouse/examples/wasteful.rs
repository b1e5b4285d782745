//! Answers each line, and wastes on it what the variable `WASTE` names: `calls`, `switches`
//! or `code` (`code:400` for 400 additions, else 20,000). Race it against itself without waste
//! and let `roundhouse explain` find out.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock};

use roundhouse::prelude::*;

/// The way to a helper thread and back.
type Helper = (SyncSender<()>, Receiver<()>);

fn helper() -> Mutex<Helper> {
    let (there, ping) = sync_channel(0);
    let (back, pong) = sync_channel(0);
    std::thread::spawn(move || while ping.recv().is_ok() && back.send(()).is_ok() {});
    Mutex::new((there, pong))
}

fn main() -> ExitCode {
    static HELPER: OnceLock<Mutex<Helper>> = OnceLock::new();
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
            "switches" => {
                let helper = HELPER.get_or_init(helper).lock();
                let (there, back) = &*helper.expect("no thread panics while it holds this");
                for _ in 0..5 {
                    black_box(there.send(()).is_ok() && back.recv().is_ok());
                }
            }
            _ => {
                black_box((0..additions).fold(1, |sum, it| sum ^ black_box(it)));
            }
        }
        reply.put("done");
    });
    roundhouse::main(wasteful.constant())
}
