//! `msg-zerocopy`: sendmsg with `MSG_ZEROCOPY`. The kernel pins our pages and reports when it is
//! done with them.
//!
//! The notice costs about as much as copying 10 kB (Documentation/networking/msg_zerocopy.rst), and
//! on the loopback device the kernel copies anyway. So this sender loses for packets of media. It
//! exists to be measured; only a real device gives a fair result.

//!
//! Pages stay pinned as long as a queue on the way holds them: packets for a receiver whose
//! link-layer address is unknown wait for seconds. Waiting for the notice would delay all other
//! streams, so packets are copied until every notice has arrived.

use std::time::Duration;

use seam::{Burst, Channel};
use sys::udp::{Batch, Udp};

use super::outlet::{Count, Outlet};
use super::{Row, Sender, Start, Transmit};
use crate::sockets::StreamSockets;

pub(super) const ROW: Row = Row {
    sender: Sender::MsgZerocopy,
    name: "msg-zerocopy",
    how: "timer wheel; sendmsg that pins our pages",
    needs: "Linux 5.0",
    sends_files: false,
    sets_up_queues: false,
    start: |sockets| Ok(Start::wheel(MsgZerocopy::new(sockets)?)),
};

/// The wait for the notices of a burst, whose memory is reused for the next.
const NOTICE_WAIT: Duration = Duration::from_millis(20);

/// sendmsg with `MSG_ZEROCOPY` for each packet; the notices of a burst are awaited at its end.
#[derive(Default)]
pub struct MsgZerocopy {
    batch: Batch,
    /// The number of sends on each socket whose notices are outstanding.
    owed: [usize; 2],
}

impl MsgZerocopy {
    /// # Errors
    /// The kernel lacks the option (before Linux 5.0).
    pub fn new(sockets: &StreamSockets) -> std::io::Result<MsgZerocopy> {
        for channel in [Channel::Rtp, Channel::Rtcp] {
            sockets.of(channel).set_zerocopy(true)?;
        }
        Ok(MsgZerocopy::default())
    }

    fn owed(&mut self, channel: Channel) -> &mut usize {
        match channel {
            Channel::Rtp => &mut self.owed[0],
            Channel::Rtcp => &mut self.owed[1],
        }
    }
}

impl Transmit for MsgZerocopy {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each_run(burst, count, |socket, run| {
            let channel = run.first().map_or(Channel::Rtp, |packet| packet.channel);
            let mut calls = 0;
            if *self.owed(channel) > 0 {
                self.hear_notices(socket, channel);
                calls += 1;
            }
            let is_free = *self.owed(channel) == 0;
            let mut sent = self.batch.send_each(socket, is_free, |filling| {
                for packet in run {
                    filling.datagram(packet.to);
                    outlet.write(filling, burst, packet);
                }
            });
            if is_free {
                let owed = self.owed(channel);
                *owed = sent.count;
                calls += wait_for(socket, owed);
            }
            sent.calls += calls;
            sent
        });
    }

    fn hear_notices(&mut self, socket: &Udp, channel: Channel) {
        let owed = self.owed(channel);
        // Reading also clears another pending error of the socket.
        let told = socket.reap_zerocopy().map_or(0, |(told, _)| told as usize);
        *owed = owed.saturating_sub(told);
    }
}

/// Waits until the `owed` notices have arrived; returns how many calls that took.
fn wait_for(socket: &Udp, owed: &mut usize) -> usize {
    let mut calls = 0;
    let until = sys::clock::now_ns() + NOTICE_WAIT.as_nanos() as u64;
    while *owed > 0 {
        calls += 1;
        // Another pending error of the socket came first; it is cleared now.
        let told = socket.reap_zerocopy().map_or(0, |(told, _)| told as usize);
        *owed = owed.saturating_sub(told);
        let left = Duration::from_nanos(until.saturating_sub(sys::clock::now_ns()));
        if left.is_zero() {
            break;
        }
        if *owed > 0 && told == 0 {
            calls += 1;
            // An error of the wait shows in the next read.
            let _ = socket.wait_notice(left);
        }
    }
    calls
}
