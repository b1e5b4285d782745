//! A clock: each client gets the seconds of the machine's clock, ten times a second; the line
//! `stop` stops it and any other line starts it again.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

fn tick(cx: &Cx<'_, ()>, reply: &mut ReplyBuffer<'_>) -> After {
    let seconds = cx.now.since(Instant::ZERO).as_secs_f64();
    reply.wake_at(cx.now + Duration::from_millis(100)).show(format_args!("{seconds:.1}")).sent()
}

fn main() -> ExitCode {
    let mut ticker = Lines(80).reply_with(|cx: &Cx<'_, ()>, line, reply| {
        reply.wake_at(if line == b"stop" { Instant::NEVER } else { cx.now });
        After::Silence
    });
    ticker.on_open = Some(tick);
    ticker.on_timer = Some(tick);
    roundhouse::main(ticker)
}
