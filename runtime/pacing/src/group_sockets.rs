//! Sockets that receive the reports of multicast groups: members report to the group, and the
//! sender receives as a member (RFC 3550 section 6).
//!
//! There is one socket for each group that a stream is sent to. A worker watches all of them by one
//! descriptor: that of an epoll instance, which is itself readable when one of its members is
//! (epoll(7), "nesting").

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sys::epoll::{Epoll, Events, Interest};
use sys::udp::{Udp, UdpOptions};

/// The maximum number of sockets read in one turn.
const LOOKED_AT: usize = 16;

/// The group sockets of one streaming worker.
pub(crate) struct GroupSockets {
    epoll: Epoll,
    open: Mutex<Vec<Group>>,
}

struct Group {
    /// The group's address as the stream names it.
    at: SocketAddr,
    key: u64,
    /// The number of streams that use the socket.
    streams: usize,
    socket: Udp,
}

impl GroupSockets {
    /// An empty set.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<GroupSockets> {
        Ok(GroupSockets { epoll: Epoll::new()?, open: Mutex::new(Vec::new()) })
    }

    /// Readable while one of the sockets has a datagram.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Group>> {
        // No panic can leave the list half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens at `at`, a group's address, on the interface with this address.
    ///
    /// # Errors
    /// The interface has no multicast, or there are too many groups already.
    pub fn open(&self, at: SocketAddr, interface: Ipv4Addr) -> io::Result<()> {
        let mut all = self.all();
        if let Some(group) = all.iter_mut().find(|group| group.at == at) {
            group.streams += 1;
            return Ok(());
        }
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let socket = Udp::bind(at, &options)?;
        socket.join(at.ip(), interface)?;
        let key = all.iter().map(|group| group.key + 1).max().unwrap_or(0);
        self.epoll.add(&socket, Interest::READ, key)?;
        all.push(Group { at, key, streams: 1, socket });
        Ok(())
    }

    /// Reports that a stream to the group `at` has ended.
    pub fn close(&self, at: SocketAddr) {
        let mut all = self.all();
        let Some(index) = all.iter().position(|group| group.at == at) else { return };
        all[index].streams -= 1;
        if all[index].streams == 0 {
            // A socket leaves the epoll instance when its last copy closes.
            drop(all.swap_remove(index));
        }
    }

    /// Passes the waiting datagrams to `tell`, at most `most`.
    pub fn receive(&self, most: usize, mut tell: impl FnMut(SocketAddr, &[u8])) {
        let mut events = Events::with_capacity(LOOKED_AT);
        if !matches!(self.epoll.wait(&mut events, Some(Duration::ZERO)), Ok(1..)) {
            return;
        }
        let all = self.all();
        let mut buffer = [0; super::context::REPORT_MAX];
        let mut left = most;
        for event in events.iter() {
            let Some(group) = all.iter().find(|group| group.key == event.key) else { continue };
            while left > 0
                && let Ok((len, from)) = group.socket.receive(&mut buffer)
            {
                left -= 1;
                tell(from, &buffer[..len]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_a_group_is_heard_until_its_last_cast_has_ended() {
        let groups = GroupSockets::new().expect("a descriptor");
        let port = std::process::id() as u16 | 0x8000;
        let at = SocketAddr::from(([239, 77, 88, 99], port));
        let here = Ipv4Addr::LOCALHOST;
        groups.open(at, here).expect("the loopback knows groups");
        groups.open(at, here).expect("it is open");
        let speaker = Udp::bind((here, 0).into(), &UdpOptions::default()).expect("a port");
        sys::socket::SockRef::from(&speaker).set_multicast_if_v4(&here).expect("there is one");
        let heard = || {
            speaker.send_to(b"report", at, false).expect("the loopback has room");
            let mut heard = Vec::new();
            groups.receive(9, |from, bytes| heard.push((from, bytes.to_vec())));
            heard
        };
        let from = speaker.local_addr().expect("bound");
        assert_eq!(heard(), [(from, b"report".to_vec())]);
        groups.close(at);
        assert_eq!(heard().len(), 1, "a stream is left");
        groups.close(at);
        assert_eq!(heard(), []);
    }
}
