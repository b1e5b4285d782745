//! Tests which senders work on this machine by really sending and receiving, because a successful
//! setsockopt(2) proves nothing.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engines::Assets;
use sys::netlink;
use sys::udp::{Mail, Udp, UdpOptions};

use crate::alone::run_alone;
use crate::cbr::{CbrOrders, CbrSource, Contents, HEAD};
use crate::runner::PacedRunner;
use crate::senders::Sender;
use crate::sockets::StreamSockets;
use crate::stats::StreamStats;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const STREAMS: u32 = 2;
const PACKETS: u32 = 30;
const GAP: Duration = Duration::from_millis(3);
const PAYLOAD: u32 = 160;

/// A sender that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Works {
    /// The median lateness, by the clock of the receiver's kernel.
    pub late_p50: Duration,
    /// The greatest lateness.
    pub late_max: Duration,
    /// System calls per hundred packets.
    pub calls_percent: u64,
}

/// Sends two short streams over the loopback device and checks what arrives. A sender that sets up
/// queues is tried in a network namespace, so that this machine's devices are untouched.
///
/// # Errors
/// Why it does not work here, as text.
pub fn probe(sender: Sender) -> Result<Works, String> {
    if !sender.row().sets_up_queues {
        return attempt(sender);
    }
    let tried = netlink::apart(|| Ok(attempt(sender)));
    tried.unwrap_or_else(|error| {
        let wanted = "expected permission to try it in a network namespace (CAP_SYS_ADMIN)";
        Err(format!("{wanted}, found: {error}; run it as root"))
    })
}

fn attempt(sender: Sender) -> Result<Works, String> {
    let words = |error: io::Error| error.to_string();
    let options = UdpOptions { receive_buffer: Some(1 << 20), ..UdpOptions::default() };
    let receiver = Udp::bind(SocketAddr::new(LOCAL, 0), &options).map_err(words)?;
    Mail::ask_for_times(&receiver).map_err(words)?;
    let to = vec![receiver.local_addr().map_err(words)?];
    let bytes: Vec<u8> = (0..PACKETS * PAYLOAD).map(|at| (at / 3) as u8).collect();
    let mut assets = Assets::default();
    let contents =
        Contents::File(assets.add(scratch(&bytes).map_err(words)?).into(), bytes.len() as u64);
    let (streams, packets, payload) = (STREAMS, PACKETS, PAYLOAD);
    let steady = CbrSource::new(to, GAP, contents);
    let source = CbrSource { streams, packets, payload, burst: 3, ahead: GAP * 4, ..steady };
    let sockets = StreamSockets::bind(LOCAL, 0).map_err(words)?;
    let (state, stats) = (CbrOrders::default(), StreamStats::default());
    let runner = PacedRunner::new((&source, &state), sender, &sockets, &stats);
    run_alone(&runner, &assets, Duration::ZERO, |_| {}).map_err(|it| it.to_string())?;
    let mut late = compare(&receiver, &source, &bytes, &state)?;
    late.sort_unstable();
    let (late_p50, late_max) = (late[late.len() / 2], late[late.len() - 1]);
    let calls_percent = stats.calls.read() * 100 / u64::from(STREAMS * PACKETS);
    Ok(Works { late_p50, late_max, calls_percent })
}

/// How long before its due time a packet may seem to arrive: the receiver's timestamps use another
/// clock, which may be adjusted during the test.
const EARLY: Duration = Duration::from_millis(1);

/// Checks that the right packets arrived, in order, and none before its due time; returns the
/// lateness of each.
fn compare(
    receiver: &Udp,
    source: &CbrSource,
    bytes: &[u8],
    state: &CbrOrders,
) -> Result<Vec<Duration>, String> {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let ahead = wall.saturating_sub(sys::clock::now_ns());
    let mut mail = Mail::new(64, 2048);
    let mut sent = [0_u32; STREAMS as usize];
    let mut late = Vec::new();
    while let Ok(letters) = mail.receive(receiver) {
        for letter in letters {
            let short = || format!("a datagram of {} bytes arrived", letter.bytes.len());
            let (head, payload) = letter.bytes.split_at_checked(HEAD).ok_or_else(short)?;
            let number = u32::from_be_bytes(head[8..].try_into().expect("four bytes"));
            let due = sent.get_mut(number as usize).ok_or("a packet of no stream arrived")?;
            let range = source.range(*due);
            let expected = &bytes[range.start as usize..range.end as usize];
            if head != CbrSource::head(number, *due) || payload != expected {
                return Err(format!("packet {due} arrived changed or out of order"));
            }
            let moment =
                source.due_at(state, number, *due).ok_or("a packet before the first")?.ns();
            // Without a kernel timestamp (0) the packet counts as arrived when it is read.
            let came = match letter.came_ns {
                0 => sys::clock::now_ns(),
                came => came.saturating_sub(ahead),
            };
            if came + (EARLY.as_nanos() as u64) < moment {
                let ms = (moment - came) as f64 / 1e6;
                return Err(format!(
                    "packet {due} arrived {ms:.1} ms before its due time: not paced"
                ));
            }
            late.push(Duration::from_nanos(came.saturating_sub(moment)));
            *due += 1;
        }
    }
    match sent.iter().all(|&sent| sent == PACKETS) {
        true => Ok(late),
        false => Err(format!("of {PACKETS} packets each, {sent:?} arrived")),
    }
}

/// An unlinked file.
fn scratch(bytes: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    Ok(file)
}
