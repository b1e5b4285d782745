//! `sendfile`: send(2) of the head with `MSG_MORE`, then sendfile(2).

use std::io;

use seam::{Burst, Payload};
use sys::splice::{odd_part, sendfile};

use super::head_then_file::{flushed, one_by_one};
use super::outlet::{Count, Outlet};
use super::{Sender, SenderRow, Start, Transmit};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::Sendfile,
    name: "sendfile",
    how: "timer wheel; a head, then sendfile after it",
    needs: "nothing",
    sends_files: true,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(Sendfile)),
};

/// send with `MSG_MORE`, then sendfile.
#[derive(Default)]
pub struct Sendfile;

impl Transmit for Sendfile {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        one_by_one(outlet, burst, count, |socket, packet, front| {
            let Payload::File(source, range) = &packet.payload else { return Ok(None) };
            if odd_part(range.start, packet.payload.len()).is_some() {
                return Ok(None);
            }
            let file = outlet.files.file(source).ok_or(io::ErrorKind::NotFound)?;
            socket.send_to(front, packet.to, true)?;
            let sent = sendfile(socket, file, range.start, packet.payload.len());
            flushed(socket, packet, sent).map(|()| Some(2))
        });
    }
}
