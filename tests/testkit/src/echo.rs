//! An echo in this process, in the packets of a game server, for tests of the load generator.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a packet, and the first one: a length of 8, and the number of a login.
const PACKET: usize = 10;
const LOGIN: [u8; PACKET] = [8, 0, 255, 255, 255, 255, 255, 255, 255, 127];

/// An echo with a thread for each client. It counts requests, so that its count can be compared
/// with the client's, and it serves until the process ends.
pub struct EchoServer {
    /// Its address.
    pub address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl EchoServer {
    /// Starts it on a port of loopback.
    pub fn start() -> EchoServer {
        let requests = Arc::<AtomicU64>::default();
        let count = Arc::clone(&requests);
        let address = crate::listen(move |client| serve(client, &count));
        EchoServer { address, requests }
    }

    /// Requests answered so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Answers until the client leaves.
fn serve(mut client: TcpStream, requests: &AtomicU64) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    client.write_all(&LOGIN)?;
    let mut packet = [0; PACKET];
    loop {
        client.read_exact(&mut packet)?;
        requests.fetch_add(1, Ordering::Relaxed);
        client.write_all(&packet)?;
    }
}
