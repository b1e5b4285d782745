//! Casts constant packets by one sender and prints what that cost and how late they left, as one
//! line of JSON: the program that `cargo xtask bench senders` runs.
//!
//! ```text
//! rate sender=sendmmsg casts=1000 packets=100 gap_us=30000 payload=32 to=10.99.0.2:9
//! ```
//! Without `to` it receives by itself and takes the lateness from the times of the receiver's
//! kernel, which on the loopback device are taken inside the sender's call; so packets that the
//! kernel sends by itself are timed as well. With `to` nobody receives, the CPU time is the
//! sender's alone, and lateness is what the sender knows.
//!
//! The CPU time is that of the whole process after the start, in steps of 10 ms: cast long enough.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engines::drum::{Beats, Drum, HEAD, Skin};
use engines::{Assets, CastSockets, Casting, Pacing, Sender, cast_alone};
use sys::udp::{Mail, Udp, UdpOptions};

/// What the command line says.
struct Ask {
    sender: Sender,
    casts: u32,
    packets: u32,
    gap: Duration,
    burst: u32,
    payload: u32,
    spread: bool,
    file: bool,
    to: Option<SocketAddr>,
    cpu: Option<usize>,
}

fn main() {
    let ask = match Ask::parse(std::env::args().skip(1)) {
        Ok(ask) => ask,
        Err(why) => {
            eprintln!("rate: {why}");
            std::process::exit(2);
        }
    };
    match cast(&ask) {
        Ok(line) => println!("{line}"),
        Err(why) => {
            eprintln!("rate: {why}");
            std::process::exit(1);
        }
    }
}

impl Ask {
    fn parse(words: impl Iterator<Item = String>) -> Result<Ask, String> {
        let mut ask = Ask {
            sender: Sender::USUAL,
            casts: 1,
            packets: 100,
            gap: Duration::from_millis(30),
            burst: 1,
            payload: 32,
            spread: true,
            file: false,
            to: None,
            cpu: None,
        };
        for word in words {
            let (name, value) =
                word.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, found {word}"))?;
            let bad = |why: &dyn std::fmt::Display| format!("{name}: {why}, found {value}");
            let number = || value.parse::<u64>().map_err(|why| bad(&why));
            match name {
                "sender" => ask.sender = value.parse().map_err(|why| bad(&why))?,
                "casts" => ask.casts = number()? as u32,
                "packets" => ask.packets = number()? as u32,
                "gap_us" => ask.gap = Duration::from_micros(number()?),
                "burst" => ask.burst = number()? as u32,
                "payload" => ask.payload = number()? as u32,
                "spread" => ask.spread = number()? != 0,
                "file" => ask.file = number()? != 0,
                "cpu" => ask.cpu = Some(number()? as usize),
                "to" => ask.to = Some(value.parse().map_err(|why| bad(&why))?),
                _ => return Err(format!("no word is called {name}")),
            }
        }
        Ok(ask)
    }
}

fn cast(ask: &Ask) -> Result<String, Box<dyn std::error::Error>> {
    if let Some(cpu) = ask.cpu {
        sys::cpu::set_affinity(&[cpu])?;
    }
    let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 3) as u8).collect();
    let mut assets = Assets::default();
    let skin = match ask.file {
        true => Skin::File(assets.add(scratch(&bytes)?).into(), bytes.len() as u64),
        false => Skin::Shared(Arc::from(&bytes[..])),
    };
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let options = UdpOptions { receive_buffer: Some(8 << 20), ..UdpOptions::default() };
    let receiver = Udp::bind(SocketAddr::new(local, 0), &options)?;
    Mail::ask_for_times(&receiver)?;
    let to = vec![ask.to.map_or_else(|| receiver.local_addr(), Ok)?];
    let Ask { casts, packets, gap, burst, payload, spread, .. } = *ask;
    let ahead = (gap * packets).max(Duration::from_secs(1)) * 2;
    let drum = Drum { casts, packets, gap, burst, payload, ahead, spread, to, skin };
    let from = if ask.to.is_some() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { local };
    let sockets = CastSockets::bind(from, 0)?;
    let (state, pacing) = (Beats::default(), Pacing::default());
    let sender = ask.sender;
    let casting = Casting { caster: &drum, sender, sockets: &sockets, pacing: &pacing };
    let over = AtomicBool::new(false);
    let (cpu, start) = (cpu_ns()?, sys::clock::now_ns());
    let mut late = std::thread::scope(|scope| {
        let listen = scope.spawn(|| match ask.to {
            Some(_) => Vec::new(),
            None => lateness(&receiver, &drum, &state, &over),
        });
        let ended = cast_alone(&casting, &state, &assets, drum.length(), |_| {});
        over.store(true, Ordering::Release);
        let late = listen.join().expect("it only listens");
        ended.map(|()| late)
    })?;
    let (cpu, took) = (cpu_ns()? - cpu, sys::clock::now_ns() - start);
    late.sort_unstable();
    let heard = late.len();
    let at = |share: f64| {
        let known = pacing.quantile(share).map_or(0, |late| late.as_nanos() as i64);
        let rank = ((heard as f64 * share) as usize).min(heard.saturating_sub(1));
        late.get(rank).copied().unwrap_or(known)
    };
    let sent = pacing.packets.read().max(1);
    Ok(format!(
        "{{\"sender\":\"{sender}\",\"casts\":{casts},\"packets\":{sent},\"failed\":{},\
         \"heard\":{heard},\"calls\":{},\"cpu_ns\":{},\"ns_per_packet\":{},\"took_ns\":{took},\
         \"late_p50_ns\":{},\"late_p99_ns\":{},\"late_p999_ns\":{},\"late_max_ns\":{}}}",
        pacing.failed.read(),
        pacing.calls.read(),
        cpu,
        cpu / sent,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    ))
}

/// The lateness of each packet by the receiver's kernel, in nanoseconds; below zero: early.
fn lateness(receiver: &Udp, drum: &Drum, state: &Beats, over: &AtomicBool) -> Vec<i64> {
    let mut mail = Mail::new(256, 64);
    let mut late = Vec::new();
    // The receiver's times are those of the wall clock, the schedule's of the other.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64;
    let ahead = wall - sys::clock::now_ns() as i64;
    loop {
        let came = receiver.wait_readable(Duration::from_millis(50)).unwrap_or(false);
        if !came && over.load(Ordering::Acquire) {
            return late;
        }
        let Ok(letters) = mail.receive(receiver) else { continue };
        for letter in letters.filter(|letter| letter.bytes.len() >= HEAD) {
            let word = |at: usize| letter.bytes[at..at + 4].try_into().expect("four bytes");
            let sent = u32::from_be_bytes(word(4)) / Drum::TICKS;
            if let Some(due) = drum.due_at(state, u32::from_be_bytes(word(8)), sent) {
                late.push(letter.came_ns as i64 - ahead - due.ns() as i64);
            }
        }
    }
}

/// CPU time of this process, threads that have ended included.
fn cpu_ns() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').ok_or("expected a line of proc(5)")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks: u64 = words[11].parse::<u64>()? + words[12].parse::<u64>()?;
    Ok(ticks * 10_000_000)
}

/// A file without a name.
fn scratch(bytes: &[u8]) -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("roundhouse-rate-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(bytes)?;
    Ok(file)
}
