//! The actions of the clients, and the faults of network and engine.

use core::fmt;
use core::time::Duration;

use crate::rng::{Choices as _, Rng};

/// The clients of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Each with its own connection.
    pub clients: Vec<Client>,
}

impl Script {
    /// One client that sends `input`, ends its half and reads until the server closes.
    pub fn saying(input: &[u8]) -> Script {
        Script { clients: vec![Client::saying(input)] }
    }
}

/// One client, which connects once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The delay from the start of the run until it connects.
    pub start: Duration,
    /// Its actions, in order. It reads all the time, as [`Faults::sip`] allows. After the last act
    /// it ends its half of the connection, unless [`Act::Stay`] is among them.
    pub acts: Vec<Act>,
}

impl Client {
    /// A client that sends `input` at once.
    pub fn saying(input: &[u8]) -> Client {
        Client { start: Duration::ZERO, acts: vec![Act::Send(input.to_vec())] }
    }

    /// All bytes that it sends, if no fault stops it.
    pub fn said(&self) -> Vec<u8> {
        let sends = self.acts.iter().filter_map(|act| match act {
            Act::Send(bytes) => Some(&bytes[..]),
            _ => None,
        });
        sends.collect::<Vec<_>>().concat()
    }
}

/// One action of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Waits for a while.
    Wait(Duration),
    /// Waits until it has received this many bytes in all.
    Expect(usize),
    /// Ends its half of the connection and goes on reading.
    End,
    /// Resets the connection: packets under way in both directions are lost.
    Reset,
    /// Does not end its half after the last act.
    Stay,
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Send(bytes) => write!(f, "Send(b\"{}\".to_vec())", bytes.escape_ascii()),
            Act::Wait(span) => write!(f, "Wait({span:?})"),
            Act::Expect(bytes) => write!(f, "Expect({bytes})"),
            Act::End => f.write_str("End"),
            Act::Reset => f.write_str("Reset"),
            Act::Stay => f.write_str("Stay"),
        }
    }
}

/// The possible misbehaviour of network and engine, within the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The longest segment in bytes; sent bytes are cut at random into segments. Segments that
    /// arrive before the server looks coalesce.
    pub segment: usize,
    /// The longest delay of a segment, a turn, a landing, a timer and a job.
    pub delay: Duration,
    /// The maximum size of one receive, in bytes.
    pub receive: usize,
    /// The maximum number of bytes of one session that the engine feeds in one turn.
    pub turn: usize,
    /// The number of bytes between server and client before a send would block.
    pub window: usize,
    /// The maximum number of bytes that a client reads at once.
    pub sip: usize,
    /// The percentage of sessions that write later (`take`, `landed`) instead of now (`sent`); half
    /// of these alternate at random.
    pub later: u8,
    /// Sends and landings may be short.
    pub short: bool,
    /// A receive may deliver although the connection does not want to read any more.
    pub late_feeds: bool,
    /// Deadlines, ends and drains may be delivered more often than needed.
    pub spurious: bool,
    /// The percentage of clients that reset at a random moment.
    pub resets: u8,
    /// The percentage of sessions that the engine shuts as idle at a random moment.
    pub hangups: u8,
    /// The time of the server's drain, counted from the start.
    pub drain: Option<Duration>,
    /// The number of workers that share the sessions; at least 1.
    pub workers: usize,
    /// Any worker may take any turn of a session.
    pub roam: bool,
    /// The engine can carry bytes between sessions.
    pub pushes: bool,
    /// The chance in percent that the engine finds itself overloaded before it feeds input.
    pub overloads: u8,
    /// The content of each asset, by number.
    pub assets: Vec<Vec<u8>>,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults::calm()
    }
}

impl Faults {
    /// No faults, and room for everything.
    pub fn calm() -> Faults {
        Faults {
            segment: 1 << 16,
            delay: Duration::ZERO,
            receive: 1 << 16,
            turn: 1 << 18,
            window: 1 << 20,
            sip: 1 << 20,
            later: 0,
            short: false,
            late_feeds: false,
            spurious: false,
            resets: 0,
            hangups: 0,
            drain: None,
            workers: 1,
            roam: false,
            pushes: true,
            overloads: 0,
            assets: Vec::new(),
        }
    }

    /// The faults that `seed` chooses; every byte still arrives in both directions.
    pub fn rough(seed: u64) -> Faults {
        let mut rng = Rng::new(seed ^ 0x5eed_fa17);
        let sizes = [1, 2, 3, 7, 16, 60, 255, 1500, 1 << 16];
        let mut size = || sizes[rng.below(sizes.len())];
        let (segment, receive, sip) = (size(), size(), size());
        let turn = receive * (1 + size() % 16);
        let window = size().max(3);
        let delays = [0, 1, 50, 1_000, 40_000, 3_000_000];
        Faults {
            segment,
            receive,
            sip,
            turn,
            window,
            delay: Duration::from_micros(delays[rng.below(delays.len())]),
            later: [0, 50, 100][rng.below(3)],
            short: rng.coin(),
            late_feeds: rng.coin(),
            spurious: rng.coin(),
            workers: 1 + rng.below(4),
            roam: rng.coin(),
            ..Faults::calm()
        }
    }

    /// As [`Faults::rough`], but connections also break, idle out and are drained.
    pub fn wild(seed: u64) -> Faults {
        let mut rng = Rng::new(seed ^ 0x0bad_cab1e);
        Faults {
            resets: [0, 20, 60][rng.below(3)],
            hangups: [0, 0, 30][rng.below(3)],
            drain: rng.chance(30).then(|| rng.moment()),
            ..Faults::rough(seed)
        }
    }

    /// These faults, with the given assets.
    pub fn with_assets(self, assets: Vec<Vec<u8>>) -> Faults {
        Faults { assets, ..self }
    }
}
