//! The sending process of a trial in the laboratory: equal packets by one sender, and its figures
//! as one line of JSON.
//!
//! Without `to` the process receives by itself on another core, and takes the lateness from the
//! receiver's timestamps in the kernel. On the loopback device the kernel takes them within the
//! sender's call, so they also cover packets that the kernel releases. With `to` there is no
//! receiver, and the sender measures the lateness itself.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use engines::Assets;
use lab::pace::{Extent, Lateness, Reading, Sending, Work, drift_ns, span_ns};
use pacing::cbr::{CbrOrders, CbrSource, Contents, HEAD};
use pacing::{PacedRunner, Sender, StreamSockets, StreamStats, run_alone};
use sys::udp::{Mail, Udp, UdpOptions};
use sys::usage::Usage;

use super::kernel::{self, Tally};

/// Bytes of the payloads' source; packets of a stream take them in turn.
const SOURCE: u32 = 1 << 20;
/// The requested size of a buffer; the kernel caps it at its limit.
const BUFFER: usize = 8 << 20;
/// The longest wait for packets that are still on their way at the end of streaming.
const STRAGGLERS: Duration = Duration::from_millis(50);

/// The receiver's figures.
#[derive(Default)]
struct Heard {
    /// Moment and lateness of each packet of each stream.
    streams: Vec<Vec<(u64, i64)>>,
    usage: Usage,
}

/// Sends, and returns the figures.
pub fn cast(ask: &Sending) -> Result<Reading> {
    let sender: Sender = ask.sender.parse()?;
    let cores = ask.cores.unzip();
    let mut assets = Assets::default();
    let contents = contents(ask, &mut assets)?;
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let receiver = receiver(local)?;
    let to = match ask.to {
        Some(to) => everybody(to, ask.work.streams),
        None => vec![receiver.local_addr()?],
    };
    let source = source(ask, to, contents);
    let from = if ask.to.is_some() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { local };
    let sockets = StreamSockets::bind(from, 0)?;
    let (state, stats, over) =
        (CbrOrders::default(), StreamStats::default(), AtomicBool::new(false));
    let runner = PacedRunner::new((&source, &state), sender, &sockets, &stats);
    // Only now: under overload the set-up on that core would take fifty times as long.
    if let Some(core) = cores.0 {
        sys::cpu::set_affinity(&[core])?;
    }
    let mut halfway = 0;
    let (memory, tally) = (kernel::bytes(), Tally::now(cores.0));
    let (before, began_ns) = (Usage::of_process(), sys::clock::now_ns());
    let (heard, ended_ns) = std::thread::scope(|scope| {
        let listen = scope.spawn(|| match ask.to {
            Some(_) => Heard::default(),
            None => listen(&receiver, &source, &state, cores.1, &over),
        });
        let look = |_: &dyn Fn()| {
            std::thread::sleep(source.length() / 2);
            halfway = kernel::bytes();
        };
        let ended = run_alone(&runner, &assets, source.length(), look);
        let ended_ns = sys::clock::now_ns();
        over.store(true, Ordering::Release);
        let heard = listen.join().unwrap_or_default();
        ended.map(|()| (heard, ended_ns))
    })?;
    let used = Usage::of_process().since(&before).since(&heard.usage);
    let tally = Tally::now(cores.0).since(&tally);
    let sent = stats.packets.read();
    let late = match ask.to {
        Some(_) => known(&stats),
        None => Lateness::of(heard.streams.concat()),
    };
    Ok(Reading {
        sender: sender.to_string(),
        streams: source.streams,
        sent,
        failed: stats.failed.read(),
        heard: heard.streams.iter().map(|it| it.len() as u64).sum(),
        calls: stats.calls.read(),
        cpu_ns: used.cpu.as_nanos() as u64,
        switches: used.waits + used.preempted,
        kernel_bytes: if halfway == 0 { 0 } else { halfway - memory },
        read_copies: tally.read as f64 / (sent.max(1) * u64::from(source.payload.max(1))) as f64,
        began_ns,
        ended_ns,
        late,
        drifts: Extent::of(heard.streams.iter().filter_map(|it| drift_ns(it))),
        spans: Extent::of(heard.streams.iter().filter_map(|it| span_ns(it))),
        softirqs: tally.softirqs,
        ..Reading::default()
    })
}

fn source(ask: &Sending, to: Vec<SocketAddr>, contents: Contents) -> CbrSource {
    let Work { streams, packets, payload, .. } = ask.work;
    let gap = ask.work.gap();
    let ahead = (gap * packets).max(Duration::from_secs(1)) * 2;
    CbrSource { streams, packets, payload, ahead, ..CbrSource::new(to, gap, contents) }
}

fn receiver(local: IpAddr) -> Result<Udp> {
    let options = UdpOptions { receive_buffer: Some(BUFFER), ..UdpOptions::default() };
    let receiver = Udp::bind(SocketAddr::new(local, 0), &options)?;
    Mail::ask_for_times(&receiver)?;
    Ok(receiver)
}

/// A receiver for each stream, by the port: packets for one receiver could leave as one message.
fn everybody(first: SocketAddr, streams: u32) -> Vec<SocketAddr> {
    let ports = 1024..=u16::MAX;
    let others = ports.take(streams as usize).map(|port| SocketAddr::new(first.ip(), port));
    if streams > 1 { others.collect() } else { vec![first] }
}

/// The lateness that the sender measured, if it did.
fn known(stats: &StreamStats) -> Option<Lateness> {
    let at = |share: f64| stats.quantile(share).map(|late| late.as_nanos() as i64);
    Some(Lateness {
        packets: stats.count(),
        p50_ns: at(0.5)?,
        p90_ns: at(0.9)?,
        p99_ns: at(0.99)?,
        p999_ns: at(0.999)?,
        max_ns: at(1.0)?,
        drift_ns: None,
        dry: 0.0,
    })
}

fn contents(ask: &Sending, assets: &mut Assets) -> Result<Contents> {
    let bytes: Vec<u8> = (0..SOURCE).map(|at| (at / 3) as u8).collect();
    if !ask.work.file {
        return Ok(Contents::Shared(Arc::from(&bytes[..])));
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(&bytes).context("cannot write the file of payloads")?;
    Ok(Contents::File(assets.add(file).into(), u64::from(SOURCE)))
}

/// Moment and lateness of each packet by the receiver's kernel.
fn listen(
    receiver: &Udp,
    source: &CbrSource,
    state: &CbrOrders,
    core: Option<usize>,
    over: &AtomicBool,
) -> Heard {
    // Without permission for that core it listens on the sender's; the times are the kernel's.
    let _ = core.map(|core| sys::cpu::set_affinity(&[core]));
    let began = Usage::of_thread();
    let mut mail = Mail::new(256, 64);
    let mut streams = vec![Vec::with_capacity(source.packets as usize); source.streams as usize];
    // The receiver's times are of the wall clock, the schedule's of the monotonic clock.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64;
    let ahead = wall - sys::clock::now_ns() as i64;
    loop {
        let came = receiver.wait_readable(STRAGGLERS).unwrap_or(false);
        if !came && over.load(Ordering::Acquire) {
            return Heard { streams, usage: Usage::of_thread().since(&began) };
        }
        let Ok(letters) = mail.receive(receiver) else { continue };
        for letter in letters.filter(|letter| letter.bytes.len() >= HEAD) {
            let word = |at: usize| letter.bytes[at..at + 4].try_into().expect("four bytes");
            let (number, sent) = (u32::from_be_bytes(word(8)), u32::from_be_bytes(word(4)));
            if let Some(due) = source.due_at(state, number, sent / CbrSource::TICKS)
                && let Some(stream) = streams.get_mut(number as usize)
            {
                stream.push((due.ns(), letter.came_ns as i64 - ahead - due.ns() as i64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_sent_and_timed() {
        for file in [false, true] {
            let work = Work { streams: 2, packets: 20, gap_us: 2_000, file, ..Work::default() };
            let ask = Sending { sender: "sendmmsg".to_owned(), work, cores: None, to: None };
            let found = cast(&ask).expect("sendmmsg works everywhere");
            assert_eq!((found.sent, found.failed, found.heard), (40, 0, 40), "{found:?}");
            let late = found.late.expect("all were heard");
            assert!(late.packets == 40 && late.p50_ns >= 0 && late.max_ns >= late.p50_ns);
            assert!(found.calls <= 40 && found.cpu_ns > 0 && found.ended_ns > found.began_ns);
            assert!(found.drifts.is_some_and(|it| it.least_ns <= it.most_ns), "{found:?}");
        }
    }
}
