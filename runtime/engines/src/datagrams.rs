//! Datagrams under the same containers and the same supervisor as connections: each worker has a
//! socket of its own on one port (`SO_REUSEPORT`), so the kernel sends a peer always to the same
//! worker. The sockets stay open in the supervisor: what arrives while a worker is replaced waits
//! for its successor.
//!
//! A turn is one recvmmsg(2), the calls of the service, and one sendmmsg(2); the kernel joins
//! arriving datagrams and cuts departing ones (`UDP_GRO`, `UDP_SEGMENT`). While the send buffer is
//! full, the loop delivers nothing: the receive buffer fills, and the kernel drops and counts what
//! does not fit.

mod exchange;
mod turns;

use std::os::fd::OwnedFd;

use language::info;
use sys::udp::{Udp, UdpOptions};

pub(crate) use self::turns::serve;
use crate::address::Address;
use crate::axes::Refused;
use crate::conflict::datagram_conflict;
use crate::fault::Fault;
use crate::limits::RECEIVE_BUFFER;
use crate::shape::Shape;

/// Checks that a shape can serve datagrams, and that no setting would be without effect.
pub(crate) fn check(shape: &Shape, address: &Address) -> Result<(), Refused> {
    let Shape { container, accept, wait, knobs, .. } = shape;
    if let Some(reason) = datagram_conflict(*container, *accept, *wait) {
        return Err(Refused(format!("{shape} serves no datagrams: {reason}")));
    }
    if address.net().is_none() {
        return Err(Refused(format!(
            "expected an Internet address for datagrams, found {address}: say --host 127.0.0.1"
        )));
    }
    let settings = [
        (knobs.loops.edge, "--edge"),
        (knobs.loops.helpers.is_some(), "--helpers"),
        (knobs.limits.sessions_max.is_some(), "--max-connections"),
    ];
    match settings.iter().find(|(is_set, _)| *is_set) {
        Some((_, flag)) => Err(Refused(format!(
            "this service has datagrams and no connections, found {flag}: leave it out"
        ))),
        None => Ok(()),
    }
}

/// A socket for each worker.
pub(crate) fn bind(address: &Address, shape: &Shape) -> Result<(Vec<OwnedFd>, Address), Fault> {
    let Some(mut local) = address.net() else {
        return Err(Fault::Listen(address.clone(), std::io::ErrorKind::Unsupported.into()));
    };
    let reuse_port = shape.workers > 1;
    let receive_buffer = Some(RECEIVE_BUFFER as usize);
    let options = UdpOptions { reuse_port, receive_buffer, ..UdpOptions::default() };
    let is_taken = local.port() != 0 && Udp::bind(local, &UdpOptions::default()).is_err();
    let mut sockets = Vec::with_capacity(shape.workers);
    for _ in 0..shape.workers {
        let fault = |error| Fault::Listen(local.into(), error);
        let socket = Udp::bind(local, &options).map_err(fault)?;
        // Beyond the limit of the machine, where there is the privilege.
        let _ = socket.force_receive_buffer(RECEIVE_BUFFER);
        local = socket.local_addr().map_err(fault)?;
        sockets.push(socket.into());
    }
    if is_taken {
        info!(
            "another server receives on {local} too: the kernel divides peers between both, until \
             one of them stops"
        );
    }
    Ok((sockets, local.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axes::{Accept, Container, Wait};

    #[test]
    fn each_point_serves_datagrams_or_names_one_that_does() {
        let local = Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut possible = 0;
        for &container in Container::ALL {
            for &accept in Accept::ALL {
                for &wait in Wait::ALL {
                    let shape = Shape {
                        workers: Shape::usual_workers(container, 2),
                        ..Shape { container, accept, wait, ..Shape::preset("epoll", 2).unwrap() }
                    };
                    match check(&shape, &local) {
                        Ok(()) => possible += usize::from(shape.check().is_ok()),
                        Err(Refused(why)) => assert!(why.contains("say --"), "{why}"),
                    }
                }
            }
        }
        // Alone (with or without SO_REUSEPORT), as threads, as processes.
        assert_eq!(possible, 2 + 1 + 1);
        let mut shape = Shape::preset("epoll", 2).unwrap();
        assert_eq!(check(&shape, &local), Ok(()));
        shape.knobs.limits.sessions_max = Some(9);
        let why = check(&shape, &local).unwrap_err().to_string();
        assert!(why.contains("--max-connections"), "{why}");
        let unix = Address::Unix("/tmp/a".into(), None);
        assert!(check(&shape, &unix).unwrap_err().to_string().contains("--host"));
    }
}
