//! A proxy that forwards bytes after a delay, as a longer path would: the effects of Nagle's
//! algorithm and delayed acknowledgements do not show on the loopback alone.
//!
//! Input of one direction is forwarded in the same pieces, a fixed time after arrival. Each half of
//! the path is a separate connection, and the local kernel acknowledges bytes that the proxy has
//! not forwarded yet: the delay applies to bytes, not to acknowledgements.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The maximum number of pieces in flight in one direction of a connection; then its sender waits.
const PIECES: usize = 4096;
/// The maximum length of a piece in bytes.
const PIECE: usize = 16 * 1024;

/// Forwards everything from `client` to `to`, each way `delay` later.
pub(super) async fn client(client: TcpStream, to: SocketAddr, delay: Duration) {
    // Without a connection to the server, the client's is closed.
    let Ok(server) = TcpStream::connect(to).await else { return };
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(pass(from_client, to_server, delay), pass(from_server, to_client, delay));
}

/// Forwards one direction until its end.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let take = async move {
        let mut buffer = vec![0; PIECE];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + delay, buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let give = async move {
        while let Some((due, piece)) = pieces.recv().await {
            sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The end of the stream is forwarded like data.
        let _ = to.shutdown().await;
    };
    tokio::join!(take, give);
}
