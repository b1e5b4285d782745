//! The connection to a master: a ZeroMQ DEALER with a name, towards a ROUTER.
//!
//! ZeroMQ libraries hide the state of a connection and make lost ones anew by themselves. The
//! crate `zeromq` does neither for a DEALER, and that is what is wanted: when to try again, and
//! under which name, is decided in [`worker`](crate::worker). A connection is a task of its own
//! that ends with it.

use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zeromq::util::PeerIdentity;
use zeromq::{
    DealerRecvHalf, DealerSocket, Socket, SocketEvent, SocketOptions, SocketRecv, SocketSend,
    ZmqError,
};

/// How long a master may take to answer a dial, handshake included.
const DIAL: Duration = Duration::from_secs(5);
/// How long to go on reading after the last message: closing a socket that still has something to
/// read resets the connection, and a reset may overtake what was sent.
const LINGER: Duration = Duration::from_millis(500);

/// A connection, or the attempt to have one. Dropping it closes it.
pub(crate) struct Link {
    number: u64,
    out: UnboundedSender<Vec<u8>>,
    task: JoinHandle<()>,
}

/// What happens to the connection of a number.
pub(crate) struct Happened {
    pub(crate) number: u64,
    pub(crate) event: Event,
}

/// What happens to a connection.
pub(crate) enum Event {
    /// It stands.
    Up,
    /// A message has come.
    Message(Vec<u8>),
    /// It is gone, or could not be made; nothing more will happen to it.
    Down(String),
}

impl Link {
    /// Connects to `address` (`HOST:PORT`) under the name `name`. What happens is told to
    /// `events` with the `number`, for an old connection may have had something to say.
    pub(crate) fn dial(
        address: &str,
        name: &str,
        number: u64,
        events: UnboundedSender<Happened>,
    ) -> Self {
        // Neither queue can grow without end: a worker says a few messages a second and gives a
        // connection up that has been silent, and a master speaks when it is spoken to.
        let (out, queue) = unbounded_channel();
        let (address, name) = (format!("tcp://{address}"), name.to_owned());
        let task = tokio::spawn(async move {
            let tell = |event| {
                // Who is not listening any more has ended.
                let _ = events.send(Happened { number, event });
            };
            let why = talk(&address, &name, queue, &tell).await;
            tell(Event::Down(why));
        });
        Self { number, out, task }
    }

    /// The number it was dialled with.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Sends a message; if the connection is gone, [`Event::Down`] says so.
    pub(crate) fn send(&self, message: Vec<u8>) {
        let _ = self.out.send(message);
    }

    /// Closes the connection when everything is sent.
    pub(crate) async fn finish(self) {
        drop(self.out);
        // The task has deadlines of its own.
        let _ = self.task.await;
    }
}

/// A connection from beginning to end; gives back why it ended.
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

/// Reads until nothing can be read.
async fn read_on(receiver: &mut DealerRecvHalf) {
    while receiver.recv().await.is_ok() {}
}

/// The library's words for a lost connection, without the message that it gives back.
fn describe(error: &ZmqError) -> String {
    match error {
        ZmqError::ReturnToSender { reason, .. } => (*reason).to_owned(),
        other => other.to_string(),
    }
}
