//! The same waits on this machine: sessions of small datagrams, each a thread that sends and
//! sleeps, next to threads that only spin.

use super::Rule;
use crate::exhibit::Fault;
use serde::Serialize;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub rule: Rule,
    pub packets: u32,
    /// The wait between two of them.
    pub gap: Duration,
    pub bytes: usize,
    /// Busy threads next to all sessions.
    pub spinners: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Session {
    /// From its first packet to its end.
    pub elapsed: Duration,
    /// The lateness of each packet against its due time, which is a gap after the one before; early
    /// packets count as not late.
    pub late: Vec<Duration>,
}

/// Runs `sessions` of each rule at once.
///
/// # Errors
/// No datagram can be sent on this machine.
pub fn run(
    rules: &[Rule],
    sessions: usize,
    program: Program,
    stop: &AtomicBool,
) -> Result<Vec<(Rule, Vec<Session>)>, Fault> {
    let cannot = |why: std::io::Error| Fault::Clients(format!("no datagrams here: {why}"));
    // No thread reads the socket: the kernel drops the excess, and the sender does not notice.
    let sink = UdpSocket::bind("127.0.0.1:0").map_err(cannot)?;
    let to = sink.local_addr().map_err(cannot)?;
    let over = AtomicBool::new(false);
    // Ticks are counted from here, as the kernel counts them from when it was started.
    let origin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..program.spinners {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut running = Vec::new();
        for &rule in rules {
            let one = |number: usize| {
                let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
                    socket.connect(to)?;
                    Ok(socket)
                });
                let program = Program { rule, ..program };
                scope.spawn(move || {
                    // Sessions begin at different phases of a tick.
                    std::thread::sleep(Duration::from_micros(1_300 * number as u64));
                    socket.map(|socket| session(&socket, program, origin, stop))
                })
            };
            running.push((rule, (0..sessions).map(one).collect::<Vec<_>>()));
        }
        let joined = running.into_iter().map(|(rule, threads)| {
            let ended = threads.into_iter().map(|thread| {
                let lost = |_| Fault::Clients("a session panicked".to_string());
                thread.join().map_err(lost)?.map_err(cannot)
            });
            Ok((rule, ended.collect::<Result<Vec<_>, Fault>>()?))
        });
        let found = joined.collect();
        over.store(true, Ordering::Relaxed);
        found
    })
}

fn session(socket: &UdpSocket, program: Program, origin: Instant, stop: &AtomicBool) -> Session {
    let Program { rule, packets, gap, bytes, .. } = program;
    let packet = vec![0; bytes];
    let began = origin.elapsed();
    let mut late = Vec::with_capacity(packets as usize);
    for index in 0..packets {
        late.push(origin.elapsed().saturating_sub(began + gap * index));
        // A full sink drops it, which does not matter here.
        let _ = socket.send(&packet);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if rule != Rule::Absolute || index + 1 < packets {
            let now = origin.elapsed();
            let wakes = rule.wakes(index, now, began, gap);
            std::thread::sleep(wakes.saturating_sub(origin.elapsed()));
        }
    }
    Session { elapsed: origin.elapsed() - began, late }
}
