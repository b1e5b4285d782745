//! Receivers of media that arrive without a request: one or thousands, at separate ports or in
//! a multicast group.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sys::epoll::{Epoll, Events};
use sys::ready::Interest;
use sys::udp::{Mail, Udp};

use super::receiver::{BATCH, ROOM, Receiver, TICK};
use super::report::MediaReport;
use super::sockets::{dropped, member, receiver, watch};

/// The media to receive.
#[derive(Clone, Copy, Debug)]
pub struct ReceivePlan {
    /// The address of the first receiver; a multicast group is joined.
    pub address: SocketAddr,
    /// The interface for a multicast group, by its address; an unspecified one leaves it to the
    /// routes.
    pub interface: Ipv4Addr,
    /// Number of receivers: members of the group, or receivers at every second port from that of
    /// the address on.
    pub receivers: u32,
    /// The time to receive.
    pub time: Duration,
}

/// Counts arriving media until the time is over, all senders have sent BYE, or `stop` is set.
///
/// # Errors
/// An address cannot be bound.
pub fn receive(what: &ReceivePlan, stop: &AtomicBool) -> io::Result<MediaReport> {
    let epoll = Epoll::new()?;
    let mut sockets = Vec::new();
    for receiver in 0..what.receivers {
        let (media, control) = receiving(what, receiver)?;
        watch(&epoll, &media, sockets.len() as u64)?;
        sockets.push(Some(media));
        if let Some(control) = &control {
            epoll.add(control, Interest::READ, sockets.len() as u64)?;
        }
        sockets.push(control);
    }
    let mut state = Receiver::new(Vec::new(), what.receivers);
    let (origin, mut mail) = (sys::clock::now_ns(), Mail::new(BATCH, ROOM));
    let mut events = Events::with_capacity(256);
    while sys::clock::now_ns() - origin < what.time.as_nanos() as u64
        && !stop.load(Ordering::Relaxed)
        && !state.senders.have_left()
    {
        epoll.wait(&mut events, Some(TICK))?;
        for event in events.iter() {
            let Some(socket) = &sockets[event.key as usize] else { continue };
            let receiver = event.key as u32 / 2;
            state.receive_datagrams(socket, &mut mail, receiver, event.key % 2 == 1);
        }
    }
    state.report.dropped = dropped(sockets.iter().step_by(2).flatten());
    state.report.receivers = what.receivers;
    Ok(state.finish((sys::clock::now_ns() - origin) as f64 / 1e9))
}

/// The sockets of a receiver; the second is missing where another program has its port.
fn receiving(what: &ReceivePlan, receiver: u32) -> io::Result<(Udp, Option<Udp>)> {
    if what.address.ip().is_multicast() {
        let control = SocketAddr::new(what.address.ip(), what.address.port().saturating_add(1));
        let media = member(what.address, what.interface)?;
        return Ok((media, member(control, what.interface).ok()));
    }
    let wanted = u32::from(what.address.port()) + 2 * receiver;
    let port = u16::try_from(wanted).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "there are too few ports after this one")
    })?;
    let at = |port| SocketAddr::new(what.address.ip(), port);
    let control = port.checked_add(1).and_then(|port| receiver_at(at(port)).ok());
    Ok((receiver_at(at(port))?, control))
}

/// A socket at `address`. An error names the address, because there may be thousands.
fn receiver_at(address: SocketAddr) -> io::Result<Udp> {
    receiver(address, false)
        .map_err(|error| io::Error::new(error.kind(), format!("port {}: {error}", address.port())))
}
