//! Blasts an echo of datagrams, and prints the CPU time of the process PID for each that returned:
//! `udp-blast ADDRESS PID FLOWS BURST BYTES TRAIN SECONDS`.
//!
//! Each flow is a socket with BURST datagrams outstanding, which leave in trains of TRAIN
//! (`UDP_SEGMENT`; 1: one by one) and are sent again when all have returned, or 20 ms later.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sys::epoll::{Epoll, Events};
use sys::ready::Interest;
use sys::udp::{Batch, Mail, Udp, UdpOptions};

/// After this time datagrams that have not returned count as lost.
const LOST: Duration = Duration::from_millis(20);

struct Flow {
    socket: Udp,
    /// Datagrams that have not returned.
    open: usize,
    since: Instant,
}

/// Nanoseconds of all threads of a process (`schedstat`, the first number; proc_pid(5)).
fn cpu_ns(pid: usize) -> std::io::Result<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let each = tasks.map(|task| {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        Ok(text.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0))
    });
    each.sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let to: SocketAddr = words.next().ok_or("expected ADDRESS")?.parse()?;
    let numbers: Vec<usize> = words.map(|it| it.parse()).collect::<Result<_, _>>()?;
    let [pid, flows, burst, len, train, seconds] = numbers[..] else {
        return Err("expected ADDRESS PID FLOWS BURST BYTES TRAIN SECONDS".into());
    };
    let train = train.clamp(1, 64.min(65_000 / len.max(1)));
    let (bytes, mut batch, mut sent) = (vec![7; len * train], Batch::default(), 0);
    let mut send = |flow: &mut Flow| {
        let left = batch.send(&flow.socket, |filling| {
            for first in (0..burst).step_by(train) {
                let count = train.min(burst - first);
                filling.datagram(to);
                filling.piece(&bytes[..count * len]);
                if count > 1 {
                    filling.segment(len as u16);
                }
            }
        });
        (flow.open, flow.since) = ((left.count * train).min(burst), Instant::now());
        sent += flow.open;
    };
    let (epoll, mut all) = (Epoll::new()?, Vec::new());
    let before = cpu_ns(pid)?;
    for key in 0..flows {
        let socket = Udp::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &UdpOptions::default())?;
        let _ = socket.force_receive_buffer(4 << 20);
        socket.set_gro(train > 1)?;
        epoll.add(&socket, Interest::READ, key as u64)?;
        let mut flow = Flow { socket, open: 0, since: Instant::now() };
        send(&mut flow);
        all.push(flow);
    }
    let (mut mail, mut events) = (Mail::new(64, (64 << 10) + 64), Events::with_capacity(flows));
    let (begun, mut returned) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds as u64) {
        epoll.wait(&mut events, Some(LOST))?;
        for event in events.iter() {
            let flow = &mut all[event.key as usize];
            let letters = mail.receive(&flow.socket).into_iter().flatten();
            let came: usize = letters.map(|letter| letter.datagrams().count()).sum();
            returned += came;
            flow.open = flow.open.saturating_sub(came);
            if flow.open == 0 {
                send(flow);
            }
        }
        all.iter_mut().filter(|flow| flow.since.elapsed() > LOST).for_each(&mut send);
    }
    let each = (cpu_ns(pid)? - before) as f64 / f64::max(1.0, returned as f64);
    println!("{{\"sent\": {sent}, \"returned\": {returned}, \"cpu_ns\": {each:.1}}}");
    Ok(())
}
