//! A chat for browsers: open the address that the program prints. Each line goes to all other
//! pages. The server gives a page to a browser and speaks WebSocket to the page.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

share! {
    struct Room {
        members: Map<u64, bool, 1024>,
    }
}

fn say(cx: &Cx<'_, Room>, line: &[u8], reply: &mut ReplyBuffer<'_>) -> After {
    cx.state.members.for_each(|member, _| {
        if *member != cx.me.bits() {
            // A member that has just left gets nothing.
            let _ = cx.push(SessionId::from_bits(*member), &[line, b"\n"].concat());
        }
    });
    reply.put("you: ").put(line).sent()
}

fn main() -> ExitCode {
    let mut chat = Lines(1024).reply_with(say);
    chat.on_open = Some(|cx, reply| match cx.state.members.insert(cx.me.bits(), true) {
        Ok(()) => reply.put("welcome").sent(),
        Err(full) => reply.show(full).sent(),
    });
    chat.on_close = Some(|cx| {
        cx.state.members.remove(&cx.me.bits());
    });
    let page = include_str!("websocket.html").to_owned();
    let options = WebSocketOptions { page, ..MessageKind::Text.into() };
    Server::new(chat).pushes().websocket(options).main()
}
