//! The connection to a master: a named ZeroMQ DEALER connecting to a ROUTER.
//!
//! ZeroMQ libraries usually hide the state of a connection and reconnect by themselves. The crate
//! `zeromq` does neither for a DEALER, which suits us: [`worker`](crate::worker) decides when to
//! reconnect and under which name. Each connection is a task of its own.

use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zeromq::util::PeerIdentity;
use zeromq::{
    DealerRecvHalf, DealerSocket, Socket, SocketEvent, SocketOptions, SocketRecv, SocketSend,
    ZmqError,
};

/// How long a master may take to accept a connection, including the handshake.
const DIAL: Duration = Duration::from_secs(5);
/// How long to keep reading after the last message: closing a socket with unread input resets the
/// connection, and a reset may overtake the sent data.
const LINGER: Duration = Duration::from_millis(500);

/// A connection, or the attempt to have one. Dropping it closes it.
pub(crate) struct Link {
    number: u64,
    out: UnboundedSender<Vec<u8>>,
    task: JoinHandle<()>,
}

/// An event of the connection with this number.
pub(crate) struct LinkEvent {
    pub(crate) number: u64,
    pub(crate) event: Event,
}

/// An event of a connection.
pub(crate) enum Event {
    /// The connection is established.
    Up,
    /// A message has arrived.
    Message(Vec<u8>),
    /// The connection is closed, or could not be made; no more events follow.
    Down(String),
}

impl Link {
    /// Connects to `address` (`HOST:PORT`) under the name `name`. Events are sent to `events` with
    /// the `number`, since an old connection may still have some pending.
    pub(crate) fn dial(
        address: &str,
        name: &str,
        number: u64,
        events: UnboundedSender<LinkEvent>,
    ) -> Self {
        // Neither queue can grow without bound: a worker sends a few messages a second and closes a
        // silent connection, and a master mostly sends replies.
        let (out, queue) = unbounded_channel();
        let (address, name) = (format!("tcp://{address}"), name.to_owned());
        let task = tokio::spawn(async move {
            let tell = |event| {
                // The receiver is gone once the worker has ended.
                let _ = events.send(LinkEvent { number, event });
            };
            let why = talk(&address, &name, queue, &tell).await;
            tell(Event::Down(why));
        });
        Self { number, out, task }
    }

    /// The number with which it was made.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Sends a message; a lost connection is reported by [`Event::Down`].
    pub(crate) fn send(&self, message: Vec<u8>) {
        let _ = self.out.send(message);
    }

    /// Closes the connection after everything is sent.
    pub(crate) async fn finish(self) {
        drop(self.out);
        // The task has deadlines of its own.
        let _ = self.task.await;
    }
}

/// Runs a connection; returns why it ended.
async fn talk(
    address: &str,
    name: &str,
    mut queue: UnboundedReceiver<Vec<u8>>,
    tell: &impl Fn(Event),
) -> String {
    let Ok(identity) = PeerIdentity::try_from(name.as_bytes().to_vec()) else {
        return format!("expected a name of 1 to 255 bytes, found `{name}`");
    };
    let mut options = SocketOptions::default();
    options.peer_identity(identity).connect_timeout(DIAL);
    let mut socket = DealerSocket::with_options(options);
    let mut monitor = socket.monitor();
    if let Err(error) = socket.connect(address).await {
        return error.to_string();
    }
    tell(Event::Up);
    let gone = async move {
        while !matches!(monitor.recv().await, Ok(SocketEvent::Disconnected(_)) | Err(_)) {}
    };
    tokio::pin!(gone);
    let (mut sender, mut receiver) = socket.split();
    loop {
        tokio::select! {
            received = receiver.recv() => match received {
                Ok(message) => tell(Event::Message(message.into_vec().concat())),
                Err(error) => return error.to_string(),
            },
            () = &mut gone => return "the master has closed it".to_owned(),
            message = queue.recv() => match message {
                Some(message) => if let Err(error) = sender.send(message.into()).await {
                    return describe(&error);
                },
                None => break,
            },
        }
    }
    let last = async {
        tokio::select! {
            () = read_on(&mut receiver) => {}
            () = gone => {}
        }
    };
    let _ = timeout(LINGER, last).await;
    "it was closed here".to_owned()
}

/// Reads to the end.
async fn read_on(receiver: &mut DealerRecvHalf) {
    while receiver.recv().await.is_ok() {}
}

/// The library's error for a lost connection, without the returned message.
fn describe(error: &ZmqError) -> String {
    match error {
        ZmqError::ReturnToSender { reason, .. } => (*reason).to_owned(),
        other => other.to_string(),
    }
}
