//! A tiny stock market on threads, with selectable misbehaviour.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wire::framing::{Framing, Shape};

/// The server's behaviour.
#[derive(Clone, Copy, Debug)]
pub struct ServerBehaviour {
    pub framing: Framing,
    /// Whether each connection is served to its end before the next is accepted.
    pub iterative: bool,
    /// A pause before each accept.
    pub slow_accept: Duration,
    /// A misbehaviour at the n-th order, n from 1.
    pub fault: Option<(u64, Misdeed)>,
}

/// A kind of misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// A wrong reply.
    Lie,
    /// The right reply without changing the book.
    Forget,
    /// The connection is closed without a reply.
    Close,
    /// The connection is reset without a reply, at each n-th order.
    ResetEach,
    /// No reply on this connection, which stays open.
    Hang,
}

impl Default for ServerBehaviour {
    fn default() -> Self {
        Self { framing: Framing::Line, iterative: false, slow_accept: Duration::ZERO, fault: None }
    }
}

/// A running market; its threads end with the process.
pub struct Market {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    behaviour: ServerBehaviour,
    /// Held while a connection is accepted, or served to its end.
    turn: Mutex<()>,
    book: Mutex<BTreeMap<u32, u64>>,
    orders: AtomicU64,
    requests: AtomicU64,
}

impl Market {
    /// Opens a market of ten stocks with a million pieces each.
    pub fn open(behaviour: ServerBehaviour) -> Self {
        let state = Arc::new(State {
            behaviour,
            turn: Mutex::default(),
            book: Mutex::new((1..=10).map(|id| (id, 1_000_000)).collect()),
            orders: AtomicU64::default(),
            requests: AtomicU64::default(),
        });
        let shared = Arc::clone(&state);
        let address = testkit::listen(move |socket| {
            let turn = shared.turn.lock().expect("no thread panics with it");
            thread::sleep(behaviour.slow_accept);
            let _turn = behaviour.iterative.then_some(turn);
            talk(socket, &shared);
        });
        Self { address, state }
    }

    /// Requests that came in so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }
}

fn talk(socket: TcpStream, state: &State) {
    socket.set_nodelay(true).expect("a fresh socket");
    let mut requests = BufReader::new(socket.try_clone().expect("a descriptor"));
    let mut replies = socket;
    let mut line = String::new();
    let mut batch = Vec::new();
    loop {
        line.clear();
        if !matches!(requests.read_line(&mut line), Ok(1..)) {
            return;
        }
        state.requests.fetch_add(1, Ordering::Relaxed);
        match state.answer(line.trim_end()) {
            Ok((text, shape)) => {
                let framing = state.behaviour.framing;
                framing.encode(text.as_bytes(), shape, &mut batch).expect("it fits");
            }
            Err(Misdeed::ResetEach) => {
                sys::socket::set_linger_reset(&replies).expect("an open socket");
                return;
            }
            Err(Misdeed::Hang) => thread::sleep(Duration::from_secs(3600)),
            Err(_) => return,
        }
        if requests.buffer().is_empty() {
            if replies.write_all(&batch).is_err() {
                return;
            }
            batch.clear();
        }
    }
}

impl State {
    /// The reply, or the misbehaviour that replaces it.
    fn answer(&self, request: &str) -> Result<(String, Shape), Misdeed> {
        let words: Vec<&str> = request.split(' ').collect();
        let mut book = self.book.lock().expect("no thread panics with it");
        let [command, id, amount] = words[..] else {
            let rows = book.iter().map(|(id, left)| format!("{id} {left} {}\n", id * 100));
            return Ok((rows.collect(), Shape::Block));
        };
        let (id, amount): (u32, u64) = (id.parse().expect("an id"), amount.parse().expect("n"));
        let order = self.orders.fetch_add(1, Ordering::Relaxed) + 1;
        let what = self.behaviour.fault.and_then(|(n, what)| {
            let due = if what == Misdeed::ResetEach { order.is_multiple_of(n) } else { order == n };
            due.then_some(what)
        });
        if let Some(what @ (Misdeed::Close | Misdeed::ResetEach | Misdeed::Hang)) = what {
            return Err(what);
        }
        let left = book.get_mut(&id).expect("one of ten stocks");
        let text = match (command, what) {
            (_, Some(Misdeed::Lie)) => format!("[{command}] succes\n"),
            ("buy", _) if *left < amount => "Not enough left stocks\n".to_owned(),
            (_, Some(Misdeed::Forget)) => format!("[{command}] success\n"),
            _ => {
                *left = if command == "buy" { *left - amount } else { *left + amount };
                format!("[{command}] success\n")
            }
        };
        Ok((text, Shape::Line))
    }
}
