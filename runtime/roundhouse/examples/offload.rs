//! Slow work: each line is a number of milliseconds to sleep. Helper threads of the engine sleep,
//! so a loop serves its other connections meanwhile.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

share! {
    struct Work {
        done: Counter,
    }
}

fn main() -> ExitCode {
    roundhouse::main(Lines(80).offload(|work: &Work, line, reply| {
        let ms = str::from_utf8(line).ok().and_then(|line| line.parse().ok()).unwrap_or(1);
        std::thread::sleep(Duration::from_millis(ms));
        reply.put("slept ").show(ms).put(" ms, job ").show(work.done.add(1));
    }))
}
