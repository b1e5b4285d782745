//! A proxy that passes bytes on later, as a longer way would: what Nagle's algorithm and delayed
//! acknowledgements are about cannot be seen on the loopback alone.
//!
//! Whatever arrives in one direction leaves in the same pieces, so long after it came. Each half of
//! the way is a connection of its own, and the kernel of this machine acknowledges what the proxy
//! has not passed on yet: the delay is one of bytes, not of acknowledgements.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Pieces under way in one direction of a connection; then its sender has to wait.
const PIECES: usize = 4096;
/// Bytes of a piece, at the most.
const PIECE: usize = 16 * 1024;

/// Accepts for ever, and passes everything on to `to`, each way `delay` later.
pub(super) async fn serve(port: u16, to: SocketAddr, delay: Duration) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.with_context(|| format!("cannot listen on port {port}"))?;
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            // Who cannot be passed on is closed.
            let Ok(server) = TcpStream::connect(to).await else { return };
            if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
                return;
            }
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(pass(from_client, to_server, delay), pass(from_server, to_client, delay),);
        });
    }
}

/// Passes one direction on until its end.
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
        // The end passes on as everything else does.
        let _ = to.shutdown().await;
    };
    tokio::join!(take, give);
}
