//! The process that casts for the laboratory of senders: constant packets by one sender, and what
//! came of them as one line of JSON.
//!
//! Without `to` it receives by itself on another core and takes the lateness from the times of the
//! receiver's kernel, which on the loopback device are taken inside the sender's call; so packets
//! that the kernel sends by itself are timed as well. With `to` nobody receives, and the lateness
//! is what the sender knows.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use engines::drum::{Beats, Drum, HEAD, Skin};
use engines::{Assets, CastSockets, Casting, Pacing, Sender, cast_alone};
use lab::pace::{Lateness, Reading, Work};
use sys::udp::{Mail, Udp, UdpOptions};
use sys::usage::Usage;

/// Bytes of the payloads' source; streams read on in it from packet to packet.
const SOURCE: u32 = 1 << 20;
/// What a buffer may be asked to hold; the kernel gives as much of it as it may.
const BUFFER: usize = 8 << 20;
/// The longest wait for what is still on its way when casting has ended.
const STRAGGLERS: Duration = Duration::from_millis(50);

/// What the command line says.
pub struct Ask {
    sender: Sender,
    work: Work,
    /// Where to; `None`: to itself.
    to: Option<SocketAddr>,
    /// The sender's core and the receiver's.
    core: Option<usize>,
    ear: Option<usize>,
}

impl Ask {
    /// From words `NAME=VALUE`.
    ///
    /// # Errors
    /// A name or value that is not understood.
    pub fn parse(words: &[String]) -> Result<Ask> {
        let audio = Work::audio(Duration::from_secs(3));
        let mut ask = Ask { sender: Sender::USUAL, work: audio, to: None, core: None, ear: None };
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                bail!("expected NAME=VALUE, found `{word}`")
            };
            let number =
                || value.parse::<u32>().with_context(|| format!("{name}: no number: `{value}`"));
            let work = &mut ask.work;
            match name {
                "sender" => ask.sender = value.parse()?,
                "casts" => work.streams = number()?,
                "packets" => work.packets = number()?,
                "gap_us" => work.gap_us = u64::from(number()?),
                "burst" => work.burst = number()?,
                "payload" => work.payload = number()?,
                "file" => work.file = number()? != 0,
                "cpu" => ask.core = Some(number()? as usize),
                "ear" => ask.ear = Some(number()? as usize),
                "to" => ask.to = Some(value.parse().context("`to` expects ADDRESS:PORT")?),
                _ => bail!("no word is called `{name}`"),
            }
        }
        Ok(ask)
    }
}

/// What the receiver has to tell at the end.
#[derive(Default)]
struct Heard {
    /// Moment and lateness of each packet.
    packets: Vec<(u64, i64)>,
    usage: Usage,
}

/// Casts, and returns what came of it.
///
/// # Errors
/// The sender does not work here, or the machine lacks something.
pub fn cast(ask: &Ask) -> Result<Reading> {
    let mut assets = Assets::default();
    let skin = skin(ask.work.file, &mut assets)?;
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let options = UdpOptions { receive_buffer: Some(BUFFER), ..UdpOptions::default() };
    let receiver = Udp::bind(SocketAddr::new(local, 0), &options)?;
    Mail::ask_for_times(&receiver)?;
    let to = match ask.to {
        Some(to) => everybody(to, ask.work.streams),
        None => vec![receiver.local_addr()?],
    };
    let Work { streams: casts, packets, burst, payload, .. } = ask.work;
    let gap = ask.work.gap();
    let ahead = (gap * packets).max(Duration::from_secs(1)) * 2;
    let drum = Drum { casts, packets, gap, burst, payload, ahead, spread: true, to, skin };
    let from = if ask.to.is_some() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { local };
    let sockets = CastSockets::bind(from, 0)?;
    let (state, pacing, over) = (Beats::default(), Pacing::default(), AtomicBool::new(false));
    let sender = ask.sender;
    let casting = Casting { caster: &drum, sender, sockets: &sockets, pacing: &pacing };
    // Only now: under overload a beginning on that core would take fifty times as long.
    if let Some(core) = ask.core {
        sys::cpu::set_affinity(&[core])?;
    }
    let mut halfway = 0;
    let (memory, read) = (kernel_bytes(), read_bytes());
    let (before, began_ns) = (Usage::of_process(), sys::clock::now_ns());
    let (heard, ended_ns) = std::thread::scope(|scope| {
        let listen = scope.spawn(|| match ask.to {
            Some(_) => Heard::default(),
            None => listen(&receiver, &drum, &state, ask.ear, &over),
        });
        let look = |_: &dyn Fn()| {
            std::thread::sleep(drum.length() / 2);
            halfway = kernel_bytes();
        };
        let ended = cast_alone(&casting, &state, &assets, drum.length(), look);
        let ended_ns = sys::clock::now_ns();
        over.store(true, Ordering::Release);
        let heard = listen.join().unwrap_or_default();
        ended.map(|()| (heard, ended_ns))
    })?;
    let used = Usage::of_process().since(&before).since(&heard.usage);
    let sent = pacing.packets.read();
    let bytes = sent.max(1) * u64::from(payload.max(1));
    let late = match ask.to {
        Some(_) => known(&pacing),
        None => Lateness::of(heard.packets.clone()),
    };
    Ok(Reading {
        sender: sender.to_string(),
        streams: casts,
        sent,
        failed: pacing.failed.read(),
        heard: heard.packets.len() as u64,
        calls: pacing.calls.read(),
        cpu_ns: used.cpu.as_nanos() as u64,
        switches: used.waits + used.preempted,
        kernel_bytes: if halfway == 0 { 0 } else { halfway - memory },
        read_copies: read_bytes().saturating_sub(read) as f64 / bytes as f64,
        began_ns,
        ended_ns,
        late,
        ..Reading::default()
    })
}

/// A receiver for each stream, by the port: packets for one receiver could leave as one message.
fn everybody(first: SocketAddr, streams: u32) -> Vec<SocketAddr> {
    let ports = 1024..=u16::MAX;
    let others = ports.take(streams as usize).map(|port| SocketAddr::new(first.ip(), port));
    if streams > 1 { others.collect() } else { vec![first] }
}

/// The lateness that the sender noted, where it did.
fn known(pacing: &Pacing) -> Option<Lateness> {
    let at = |share: f64| pacing.quantile(share).map(|late| late.as_nanos() as i64);
    Some(Lateness {
        packets: pacing.packets.read(),
        p50_ns: at(0.5)?,
        p90_ns: at(0.9)?,
        p99_ns: at(0.99)?,
        p999_ns: at(0.999)?,
        max_ns: at(1.0)?,
        drift_ns: None,
        dry: 0.0,
    })
}

fn skin(file: bool, assets: &mut Assets) -> Result<Skin> {
    let bytes: Vec<u8> = (0..SOURCE).map(|at| (at / 3) as u8).collect();
    Ok(match file {
        true => Skin::File(assets.add(scratch(&bytes)?).into(), bytes.len() as u64),
        false => Skin::Shared(Arc::from(&bytes[..])),
    })
}

/// Moment and lateness of each packet by the receiver's kernel.
fn listen(
    receiver: &Udp,
    drum: &Drum,
    state: &Beats,
    ear: Option<usize>,
    over: &AtomicBool,
) -> Heard {
    // Where it may not listen on that core it listens on the sender's; times are the kernel's.
    let _ = ear.map(|core| sys::cpu::set_affinity(&[core]));
    let began = Usage::of_thread();
    let mut mail = Mail::new(256, 64);
    let mut packets = Vec::with_capacity((drum.casts * drum.packets) as usize);
    // The receiver's times are those of the wall clock, the schedule's of the other.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64;
    let ahead = wall - sys::clock::now_ns() as i64;
    loop {
        let came = receiver.wait_readable(STRAGGLERS).unwrap_or(false);
        if !came && over.load(Ordering::Acquire) {
            return Heard { packets, usage: Usage::of_thread().since(&began) };
        }
        let Ok(letters) = mail.receive(receiver) else { continue };
        for letter in letters.filter(|letter| letter.bytes.len() >= HEAD) {
            let word = |at: usize| letter.bytes[at..at + 4].try_into().expect("four bytes");
            let sent = u32::from_be_bytes(word(4)) / Drum::TICKS;
            if let Some(due) = drum.due_at(state, u32::from_be_bytes(word(8)), sent) {
                packets.push((due.ns(), letter.came_ns as i64 - ahead - due.ns() as i64));
            }
        }
    }
}

/// Slab, kernel stacks and page tables of the machine, bytes.
fn kernel_bytes() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<i64>().ok()
    };
    ["Slab:", "KernelStack:", "PageTables:"].iter().filter_map(|name| of(name)).sum::<i64>() * 1024
}

/// Bytes that read calls have brought this process (proc_pid_io(5)).
fn read_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|line| line.parse().ok()).unwrap_or(0)
}

/// A file without a name.
fn scratch(bytes: &[u8]) -> Result<File> {
    let path = std::env::temp_dir().join(format!("roundhouse-rate-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(words: &str) -> Result<Ask> {
        Ask::parse(&words.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_the_laboratory_says_is_understood() {
        let work = Work { streams: 3, packets: 7, gap_us: 5, burst: 2, payload: 9, file: false };
        let found = ask(&format!("sender=plain {} cpu=1 ear=0", work.arguments().join(" ")));
        let found = found.expect("good words");
        assert_eq!((found.sender, found.work, found.core), (Sender::Plain, work, Some(1)));
        for (words, want) in [("sender=mule", "mule"), ("gap_us=-1", "gap_us"), ("ear", "`ear`")] {
            let why = ask(words).err().map(|why| format!("{why:#}")).unwrap_or_default();
            assert!(why.contains(want), "{words}: {why}");
        }
    }

    #[test]
    fn every_packet_is_sent_and_timed() {
        for file in ["0", "1"] {
            let words = format!("sender=sendmmsg casts=2 packets=20 gap_us=2000 file={file}");
            let found = cast(&ask(&words).expect("good words")).expect("sendmmsg works everywhere");
            assert_eq!((found.sent, found.failed, found.heard), (40, 0, 40), "{found:?}");
            let late = found.late.expect("all were heard");
            assert!(late.packets == 40 && late.p50_ns >= 0 && late.max_ns >= late.p50_ns);
            assert!(found.calls <= 40 && found.cpu_ns > 0 && found.ended_ns > found.began_ns);
        }
    }
}
