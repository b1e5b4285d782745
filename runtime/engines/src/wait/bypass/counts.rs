//! The counts of a queue and its stack, for the status.

use std::sync::atomic::{AtomicU64, Ordering};

use sys::xdp::XdpSocket;

use crate::status::Gauge;

/// The counts of a queue: one worker writes them, the status reads them.
#[derive(Default)]
pub struct FrameCounts {
    /// Frames and bytes that were received, and those that were sent.
    traffic: [AtomicU64; 4],
    /// Calls of poll(2), and of sendto(2).
    pub calls: [AtomicU64; 2],
    /// Nanoseconds in smoltcp and the rings, and in the turns of sessions.
    pub loop_ns: [AtomicU64; 2],
}

/// Adds to a count that no other thread writes.
pub fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl FrameCounts {
    /// Takes over the frames of a socket.
    pub fn note(&self, socket: &XdpSocket) {
        let now = [socket.receiver.counts, socket.sender.counts];
        for (count, now) in self.traffic.iter().zip(now.into_iter().flatten()) {
            count.store(now, Ordering::Relaxed);
        }
    }
}

/// The sums over all queues.
pub fn gauges(queues: &[FrameCounts]) -> Vec<Gauge> {
    let sum = |of: fn(&FrameCounts) -> &AtomicU64| {
        queues.iter().map(|it| of(it).load(Ordering::Relaxed)).sum::<u64>() as f64
    };
    let frames = "Frames of the interface";
    let bytes = "Bytes of these frames";
    let calls = "Calls that wait for frames and send them";
    let time = "Time of the loop outside of the kernel";
    vec![
        Gauge::total("frames", frames, sum(|it| &it.traffic[0])).with("direction", "in"),
        Gauge::total("frames", frames, sum(|it| &it.traffic[2])).with("direction", "out"),
        Gauge::total("frame_bytes", bytes, sum(|it| &it.traffic[1])).with("direction", "in"),
        Gauge::total("frame_bytes", bytes, sum(|it| &it.traffic[3])).with("direction", "out"),
        Gauge::total("frame_calls", calls, sum(|it| &it.calls[0])).with("call", "poll"),
        Gauge::total("frame_calls", calls, sum(|it| &it.calls[1])).with("call", "sendto"),
        Gauge::total("loop_seconds", time, sum(|it| &it.loop_ns[0]) / 1e9).with("part", "tcp"),
        Gauge::total("loop_seconds", time, sum(|it| &it.loop_ns[1]) / 1e9).with("part", "sessions"),
    ]
}
