//! Answers each line with a greeting: the shortest service.
//!
//! `cargo run -p roundhouse-runtime --example hello -- --engine uring --port 7000`

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

fn main() -> ExitCode {
    roundhouse::main(lines(|name, reply| {
        reply.put("hello, ").put(name);
    }))
}
