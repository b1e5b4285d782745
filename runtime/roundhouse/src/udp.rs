//! Services of datagrams.

use std::net::SocketAddr;

use seam::{Cx, DatagramService, Datagrams, Replies};

use crate::messages::{After, ReplyBuffer};

/// A service of datagrams for [`main`](crate::main()) and [`Server`](crate::Server): it has the
/// same flags and the same life as one of connections, on the engines that can move datagrams
/// (`iterative`, `epoll`, `reactor`, `uring`, and `--container processes --accept reuseport`).
pub fn udp<D: Datagrams>(service: D) -> DatagramService<D> {
    DatagramService(service)
}

/// A service that answers each datagram by a function that appends the reply.
///
/// ```
/// use roundhouse::prelude::*;
///
/// let shout = datagrams(|datagram, reply| {
///     reply.put(datagram.to_ascii_uppercase());
/// });
/// let server = Server::new(shout).engine("epoll").spawn().unwrap();
/// let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// client.send_to(b"hi", server.address()).unwrap();
/// let mut reply = [0; 16];
/// let (len, from) = client.recv_from(&mut reply).unwrap();
/// assert_eq!((&reply[..len], from), (&b"HI"[..], server.address()));
/// ```
pub fn datagrams<R, F>(answer: F) -> DatagramService<Answers<F>>
where
    R: Into<After>,
    F: Fn(&[u8], &mut ReplyBuffer<'_>) -> R + Sync,
{
    DatagramService(Answers(answer))
}

/// A function as a service of datagrams; [`datagrams`] makes it. [`After::Silence`] sends nothing.
#[derive(Clone, Copy, Debug)]
pub struct Answers<F>(F);

impl<R: Into<After>, F: Fn(&[u8], &mut ReplyBuffer<'_>) -> R + Sync> Datagrams for Answers<F> {
    type State = ();

    fn receive(&self, cx: &Cx<'_, ()>, from: SocketAddr, datagram: &[u8], out: &mut Replies) {
        let answered = out.write(from, |out| {
            (self.0)(datagram, &mut ReplyBuffer { out, wake: None }).into() != After::Silence
        });
        cx.answered(answered.into());
    }
}
