//! `splice`: splice(2) from the file into a pipe, and from there to the socket after a head that
//! was sent with `MSG_MORE`.

use std::io;

use seam::{Burst, Payload};
use sys::splice::{Pipe, odd_part};

use super::head_then_file::{flushed, one_by_one};
use super::outlet::{Count, Outlet};
use super::{Sender, SenderRow, Start, Transmit};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::Splice,
    name: "splice",
    how: "timer wheel; file to pipe to socket, after a head",
    needs: "nothing",
    sends_files: true,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(Splice(Pipe::new()?))),
};

/// splice from the file into a pipe, and from there after a head that was sent with `MSG_MORE`.
pub struct Splice(Pipe);

impl Transmit for Splice {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        one_by_one(outlet, burst, count, |socket, packet, front| {
            let Payload::File(source, range) = &packet.payload else { return Ok(None) };
            let file = outlet.files.file(source).ok_or(io::ErrorKind::NotFound)?;
            let len = packet.payload.len();
            self.0.put_file(file, range.start, len)?;
            socket.send_to(front, packet.to, true)?;
            let first = odd_part(range.start, len).unwrap_or(0);
            let front_left = if first > 0 { self.0.drain_front(socket, first) } else { Ok(()) };
            let sent = front_left.and_then(|()| self.0.drain(socket, len - first));
            flushed(socket, packet, sent).map(|()| Some(3 + usize::from(first > 0)))
        });
    }
}
