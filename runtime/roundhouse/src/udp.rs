//! Services of datagrams.

use std::convert::Infallible;
use std::net::SocketAddr;

use engines::BoundDatagrams;
use seam::{Cx, Datagrams, Event, Out, Peer, Replies, Service, Step};

use crate::Server;
use crate::messages::{After, ReplyBuffer};

/// A server of datagrams: it has the same flags and the same life as one of connections, on
/// `--engine epoll` and `reactor`, and with `--container processes --accept reuseport --wait
/// epoll`.
pub fn udp<D: Datagrams + Send + 'static>(service: D) -> Server<Udp<D>> {
    Server::of_datagrams(Udp(service), |service, state| {
        Box::new(BoundDatagrams { service: &service.0, state })
    })
}

/// A server that answers each datagram by a function that appends the reply.
///
/// ```
/// use roundhouse::prelude::*;
///
/// let shout = datagrams(|datagram, reply| {
///     reply.put(datagram.to_ascii_uppercase());
/// });
/// let server = shout.engine("epoll").spawn().unwrap();
/// let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// client.send_to(b"hi", server.address()).unwrap();
/// let mut reply = [0; 16];
/// let (len, from) = client.recv_from(&mut reply).unwrap();
/// assert_eq!((&reply[..len], from), (&b"HI"[..], server.address()));
/// ```
pub fn datagrams<R, F>(answer: F) -> Server<Udp<Answers<F>>>
where
    R: Into<After>,
    F: Fn(&[u8], &mut ReplyBuffer<'_>) -> R + Send + Sync + 'static,
{
    udp(Answers(answer))
}

/// A service of datagrams where a [`Server`] has one of connections, of which it has none.
#[derive(Clone, Copy, Debug)]
pub struct Udp<D>(D);

impl<D: Datagrams> Service for Udp<D> {
    type State = D::State;
    type Session = ();
    type Job = Infallible;
    type Outcome = Infallible;

    fn open(&self, _cx: &Cx<'_, D::State>, _peer: Peer, _out: &mut Out) {}

    fn step(
        &self,
        _cx: &Cx<'_, D::State>,
        _session: &mut (),
        _event: Event<'_, Infallible>,
        _out: &mut Out,
    ) -> Step<Infallible> {
        Step::close(0)
    }

    fn work(&self, _state: &D::State, job: Infallible) -> Infallible {
        match job {}
    }
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
