//! Sends that leave their bytes where they are (`MSG_ZEROCOPY`): the kernel pins our pages and
//! tells when it has done with them.
//!
//! The notice costs about what copying 10 kB does (Documentation/networking/msg_zerocopy.rst), and
//! on the loopback device the kernel copies in the end. So this loses for media by the packet; it
//! is here to be measured, and measured honestly only towards a device.

use std::time::Duration;

use seam::Burst;
use sys::udp::{Batch, Udp};

use super::Transmit;
use super::outlet::{Count, Outlet};
use crate::casts::sockets::CastSockets;

/// How long to wait for the notices of a burst, whose memory is used again for the next.
const NOTICE_WAIT: Duration = Duration::from_millis(20);

/// sendmsg with `MSG_ZEROCOPY` for each packet, and the notices of all at its end.
#[derive(Default)]
pub struct Zerocopy(Batch);

impl Zerocopy {
    /// # Errors
    /// The kernel does not know the option (before Linux 5.0).
    pub fn new(sockets: &CastSockets) -> std::io::Result<Zerocopy> {
        for channel in [seam::Channel::Rtp, seam::Channel::Rtcp] {
            sockets.of(channel).set_zerocopy(true)?;
        }
        Ok(Zerocopy::default())
    }
}

impl Transmit for Zerocopy {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each_run(burst, count, |socket, run| {
            let mut sent = self.0.send_each(socket, true, |filling| {
                for packet in run {
                    filling.datagram(packet.to);
                    outlet.write(filling, burst, packet);
                }
            });
            sent.calls += wait_for(socket, sent.count);
            sent
        });
    }
}

/// Waits until `sends` have been told to be done; says how many calls that took.
fn wait_for(socket: &Udp, sends: usize) -> usize {
    let (mut done, mut calls) = (0, 0);
    let until = sys::clock::now_ns() + NOTICE_WAIT.as_nanos() as u64;
    while done < sends && sys::clock::now_ns() < until {
        calls += 1;
        match socket.reap_zerocopy() {
            Ok((0, _)) => std::thread::yield_now(),
            Ok((told, _)) => done += told as usize,
            // Another error of the socket was in front; it is gone now.
            Err(_) => {}
        }
    }
    calls
}
