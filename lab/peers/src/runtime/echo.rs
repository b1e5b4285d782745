//! The echo of a game server's library on tokio: a task for each connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of a packet: a length of 8 in two bytes, little-endian, and eight bytes to be echoed.
const PACKET: usize = 10;
const LENGTH: [u8; 2] = [8, 0];
/// Sent by the server on accept.
const LOGIN: [u8; PACKET] = *b"\x08\0\xff\xff\xff\xff\xff\xff\xff\x7f";
/// The maximum number of bytes received at once.
const RECEIVE: usize = 64 * 1024;

/// One client. Packets that arrived together are returned together.
pub(super) async fn client(mut peer: TcpStream) -> std::io::Result<()> {
    peer.write_all(&LOGIN).await?;
    let mut input = Vec::with_capacity(RECEIVE);
    loop {
        if peer.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let (packets, _) = input.as_chunks::<PACKET>();
        let right = packets.iter().take_while(|packet| packet[..2] == LENGTH).count();
        let is_wrong = right < packets.len();
        peer.write_all(&input[..right * PACKET]).await?;
        if is_wrong {
            return Ok(());
        }
        input.drain(..right * PACKET);
    }
}
