//! A chat: each line goes to all other clients. Sessions push bytes to each other, so an engine
//! must have all of them in one worker; others are refused at the start.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

share! {
    struct Room {
        members: Map<u64, bool, 1024>,
    }
}

fn enter(cx: &Cx<'_, Room>, reply: &mut ReplyBuffer<'_>) -> After {
    match cx.state.members.insert(cx.me.bits(), true) {
        Ok(()) => reply.put("welcome").sent(),
        Err(full) => reply.show(full).sent(),
    }
}

fn say(cx: &Cx<'_, Room>, line: &[u8], _: &mut ReplyBuffer<'_>) -> After {
    let text = [line, b"\n"].concat();
    cx.state.members.for_each(|member, _| {
        if *member != cx.me.bits() {
            // A member that has just left gets nothing.
            let _ = cx.push(SessionId::from_bits(*member), &text);
        }
    });
    After::Silence
}

fn main() -> ExitCode {
    let mut chat = Lines(1024).reply_with(say);
    chat.on_open = Some(enter);
    chat.on_close = Some(|cx| {
        cx.state.members.remove(&cx.me.bits());
    });
    Server::new(chat).pushes().main()
}
