//! A network that loses and delays packets, between two sockets of the loopback.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stats::Rng;
use sys::udp::Udp;

use super::Sliders;

/// The longest datagram.
pub const ROOM: usize = 2048;
/// The longest wait for a packet.
const LOOK: Duration = Duration::from_millis(20);
/// Packets that may wait; more are dropped, as by a full router.
const WAITING: usize = 1 << 16;

/// Sends what arrives at `socket` to `to`, except for lost packets, each after a separate delay.
pub fn relay(socket: &Udp, to: SocketAddr, sliders: &Sliders, over: &AtomicBool) -> io::Result<()> {
    let mut rng = Rng::new(sys::clock::now_ns());
    let mut waiting: BinaryHeap<Reverse<(Instant, Vec<u8>)>> = BinaryHeap::new();
    let mut bytes = [0; ROOM];
    while !over.load(Ordering::Relaxed) {
        let now = Instant::now();
        while waiting.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((_, packet))) = waiting.pop() else { break };
            socket.send_to(&packet, to, false)?;
        }
        let left = waiting.peek().map_or(LOOK, |Reverse((due, _))| *due - now);
        if !socket.wait_readable(left.min(LOOK))? {
            continue;
        }
        let (len, from) = socket.receive(&mut bytes)?;
        if !from.ip().to_canonical().is_loopback() {
            continue;
        }
        let is_lost = rng.unit() * 100.0 < f64::from(sliders.loss.load(Ordering::Relaxed));
        if !is_lost && waiting.len() < WAITING {
            let most = f64::from(sliders.delay.load(Ordering::Relaxed)) / 1e3;
            let due = Instant::now() + Duration::from_secs_f64(rng.unit() * most);
            waiting.push(Reverse((due, bytes[..len].to_vec())));
        }
    }
    Ok(())
}
