//! Answers each line, and wastes on it what the variable `WASTE` names: `calls`, `switches`
//! or `code`. Race it against itself without waste and let `roundhouse explain` find out.

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
    roundhouse::main(lines(move |_, reply| {
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
            "code" => {
                black_box((0..20_000_u64).fold(1, |sum, it| sum ^ black_box(it)));
            }
            _ => {}
        }
        reply.put("done");
    }))
}
