//! Network devices, their queues and filters (rtnetlink(7)), as far as pacing in the kernel needs
//! them: a device with a separate queue (`ifb`), a token bucket, and a filter that redirects
//! packets to it.
//!
//! A size table (`TCA_STAB`) decides what a packet of a given length *costs* in the bucket, and any
//! table is allowed. So a datagram to an unused address can cost milliseconds, and a media packet
//! next to nothing.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
    socket_with,
};

use crate::call::check;
use crate::own;

const ACK: u16 = 0x5;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const REPLACE: u16 = 0x100;
/// `NLM_F_DUMP`.
const LIST: u16 = 0x300;
/// `SOCK_DIAG_BY_FAMILY`, and the states of a connection without the last packet of its handshake,
/// and of a listener.
const BY_FAMILY: u16 = 20;
const SYN_RECV: u32 = 1 << 3;
const LISTEN: u32 = 1 << 10;
/// The handle of a device's bucket; its only class is the next number.
const BUCKET: u32 = 1 << 16;
/// `TC_H_ROOT`.
const ROOT: u32 = 0xffff_ffff;
/// `TC_H_CLSACT`, and its side for packets that leave.
const CLSACT: u32 = 0xffff_fff1;
const EGRESS: u32 = 0xffff_fff3;
/// `ETH_P_ALL` in network order.
const ALL_PROTOCOLS: u32 = 0x0003_u16.to_be() as u32;

/// A token bucket: its size, and the costs of packets.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<'a> {
    /// Tokens per second.
    pub rate: u32,
    /// The maximum number of tokens that it holds.
    pub burst: u32,
    /// The maximum number of bytes that wait.
    pub limit: u32,
    /// The cost of a packet by length. If the table has `len` entries, a packet of `n * len + rest`
    /// bytes costs `n` times the last entry plus the entry of the rest.
    pub costs: &'a [u16],
}

/// A device as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// `ARPHRD_ETHER` is 1.
    pub kind: u16,
    /// The hardware address.
    pub mac: Vec<u8>,
    /// The largest packet.
    pub mtu: u32,
    /// Receive queues that there may be.
    pub queues_max: u32,
    /// It stands on a device of a bus, not on software alone.
    pub has_parent: bool,
    /// Packets that it received.
    pub received: u64,
    /// Packets that it sent.
    pub sent: u64,
    /// Packets that it dropped.
    pub dropped: u64,
}

/// A netlink socket for this network namespace.
#[derive(Debug)]
pub struct Netlink {
    fd: OwnedFd,
}

impl Netlink {
    /// # Errors
    /// No descriptor is left.
    pub fn open() -> io::Result<Netlink> {
        // The number of NETLINK_ROUTE is that of no choice.
        Netlink::about(None)
    }

    fn about(protocol: Option<Protocol>) -> io::Result<Netlink> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        Ok(Netlink { fd: socket_with(family, kind, SocketFlags::CLOEXEC, protocol)? })
    }

    /// Makes an `ifb`: a device that takes packets which a filter redirects to it through its own
    /// queue and returns them to where they were. Returns its index. The device is up, with
    /// `address` as its own.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`; `EOPNOTSUPP` where the kernel has no such device; `EEXIST`.
    pub fn add_ifb(&self, name: &CStr, address: Ipv4Addr, prefix: u8) -> io::Result<u32> {
        let mut link = Message::new(libc::RTM_NEWLINK, ACK | CREATE | EXCLUSIVE);
        link.put(&[0; 16]).text(libc::IFLA_IFNAME, name);
        let info = link.open(libc::IFLA_LINKINFO);
        // IFLA_INFO_KIND
        link.text(1, c"ifb").close(info);
        self.ask(link)?;
        let index = index_of(name).ok_or(io::ErrorKind::NotFound)?;
        self.add_address(index, address, prefix)
            .and_then(|()| self.raise(index))
            .inspect_err(|_| drop(self.remove(index)))?;
        Ok(index)
    }

    /// Gives a device an address, and a route to the `prefix` around it once it is up.
    ///
    /// # Errors
    /// `ENODEV`, `EPERM`, `EEXIST`.
    fn add_address(&self, device: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut own = Message::new(libc::RTM_NEWADDR, ACK | CREATE);
        own.put(&[libc::AF_INET as u8, prefix, 0, libc::RT_SCOPE_UNIVERSE])
            .put(&device.to_ne_bytes());
        own.attribute(libc::IFA_LOCAL, &address.octets());
        own.attribute(libc::IFA_ADDRESS, &address.octets());
        self.ask(own)
    }

    /// Removes a device with its queue and everything that waits there.
    ///
    /// # Errors
    /// `ENODEV`, `EPERM`.
    pub fn remove(&self, index: u32) -> io::Result<()> {
        let mut gone = Message::new(libc::RTM_DELLINK, ACK);
        gone.put(&[0; 4]).put(&index.to_ne_bytes()).put(&[0; 8]);
        self.ask(gone)
    }

    /// Gives a device a token bucket (tc-tbf(8)) as its queue.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no such queue; `EEXIST`, `EPERM`.
    pub fn add_bucket(&self, device: u32, bucket: &Bucket<'_>) -> io::Result<()> {
        self.put_bucket(device, bucket, CREATE | EXCLUSIVE)
    }

    /// Empties the queue of a device's bucket and fills the bucket; `number` must differ from the
    /// last one. Setting a new queue would stop the device until every processor has left the old
    /// queue, for milliseconds, and for tens of them on a busy machine. This call does not. When it
    /// returns, packets that had left the bucket have left the device.
    ///
    /// # Errors
    /// `ENOENT`, `EPERM`.
    pub fn empty_bucket(&self, device: u32, number: u16, bucket: &Bucket<'_>) -> io::Result<()> {
        // A queue within the bucket; its tc_fifo_qopt is the limit.
        let handle = BUCKET + ((1 + u32::from(number % 2)) << 16);
        let (replace, class) = (CREATE | REPLACE, BUCKET + 1);
        let mut within = traffic(libc::RTM_NEWQDISC, replace, device, handle, class, 0);
        within.text(libc::TCA_KIND, c"bfifo");
        within.attribute(libc::TCA_OPTIONS, &bucket.limit.to_ne_bytes());
        self.ask(within)?;
        // Setting the parameters of a bucket fills it.
        self.put_bucket(device, bucket, 0)?;
        let is_under_way = |link: Link| link.received > link.sent + link.dropped;
        while is_under_way(self.link(device)?) {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn put_bucket(&self, device: u32, bucket: &Bucket<'_>, flags: u16) -> io::Result<()> {
        let mut queue = traffic(libc::RTM_NEWQDISC, flags, device, BUCKET, ROOT, 0);
        queue.text(libc::TCA_KIND, c"tbf");
        let options = queue.open(libc::TCA_OPTIONS);
        // TCA_TBF_PARMS: tc_ratespec (cell_log, linklayer ethernet, overhead, cell_align, mpu,
        // rate), another for the peak, then limit, buffer and mtu.
        let parameters = queue.open(1);
        queue.put(&[0, 1, 0, 0, 0, 0, 0, 0]).put(&bucket.rate.to_ne_bytes()).put(&[0; 12]);
        queue.put(&bucket.limit.to_ne_bytes()).put(&[0; 8]).close(parameters);
        // TCA_TBF_BURST
        queue.attribute(6, &bucket.burst.to_ne_bytes()).close(options);
        let table = queue.open(libc::TCA_STAB);
        // TCA_STAB_BASE: tc_sizespec, all zero except for the number of entries; TCA_STAB_DATA.
        let base = queue.open(1);
        queue.put(&[0; 20]).put(&(bucket.costs.len() as u32).to_ne_bytes()).close(base);
        let costs: Vec<u8> = bucket.costs.iter().flat_map(|cost| cost.to_ne_bytes()).collect();
        queue.attribute(2, &costs).close(table);
        self.ask(queue)
    }

    /// Redirects the packets that leave by `device` and that `program` (a classifier, which returns
    /// -1 for them) selects to the device `to`. The filter is identified by its `preference`.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no such filter; `EPERM`.
    pub fn lead(
        &self,
        device: u32,
        preference: u16,
        program: BorrowedFd<'_>,
        to: u32,
    ) -> io::Result<()> {
        let mut place = traffic(libc::RTM_NEWQDISC, CREATE | EXCLUSIVE, device, CLSACT, CLSACT, 0);
        // The handle of this queue is that of all ingress queues.
        place.replace(16 + 8, &0xffff_0000_u32.to_ne_bytes());
        place.text(libc::TCA_KIND, c"clsact");
        match self.ask(place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let info = u32::from(preference) << 16 | ALL_PROTOCOLS;
        let mut filter = traffic(libc::RTM_NEWTFILTER, CREATE | EXCLUSIVE, device, 0, EGRESS, info);
        filter.text(libc::TCA_KIND, c"bpf");
        let options = filter.open(libc::TCA_OPTIONS);
        // TCA_BPF_ACT holds a list of actions: the first is TCA_ACT_KIND and TCA_ACT_OPTIONS.
        let actions = filter.open(1);
        let first = filter.open(1);
        filter.text(1, c"mirred");
        let parameters = filter.open(2);
        // TCA_MIRRED_PARMS: index, capabilities, action (TC_ACT_STOLEN), two counts of the
        // kernel's, TCA_EGRESS_REDIR, and the device.
        let words = [0, 0, 4, 0, 0, 1, to];
        let words: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        filter.attribute(2, &words).close(parameters).close(first).close(actions);
        // TCA_BPF_FD, TCA_BPF_NAME
        filter.attribute(6, &program.as_raw_fd().to_ne_bytes()).text(7, c"roundhouse");
        filter.close(options);
        self.ask(filter)
    }

    /// Removes the filter of this `preference`. The `clsact` stays, because making or removing one
    /// drops traffic of the device for some milliseconds, and an empty one costs nothing.
    ///
    /// # Errors
    /// `ENOENT`, `EPERM`.
    pub fn unlead(&self, device: u32, preference: u16) -> io::Result<()> {
        let info = u32::from(preference) << 16 | ALL_PROTOCOLS;
        self.ask(traffic(libc::RTM_DELTFILTER, 0, device, 0, EGRESS, info))
    }

    /// Sets a device up.
    ///
    /// # Errors
    /// `ENODEV`, `EPERM`.
    pub fn raise(&self, device: u32) -> io::Result<()> {
        let mut up = Message::new(libc::RTM_NEWLINK, ACK);
        let on = (libc::IFF_UP as u32).to_ne_bytes();
        up.put(&[0; 4]).put(&device.to_ne_bytes()).put(&on).put(&on);
        self.ask(up)
    }

    /// The description of a device. Unlike `/sys`, it is that of this network namespace.
    ///
    /// # Errors
    /// `ENODEV`.
    pub fn link(&self, device: u32) -> io::Result<Link> {
        let mut ask = Message::new(libc::RTM_GETLINK, 1);
        ask.put(&[0; 4]).put(&device.to_ne_bytes()).put(&[0; 8]);
        let answers = self.list(ask)?;
        let answer = answers.first().ok_or(io::ErrorKind::NotFound)?;
        let kind = answer.get(2..4).and_then(|it| it.first_chunk()).copied().unwrap_or_default();
        let mut link = Link { kind: u16::from_ne_bytes(kind), ..Link::default() };
        for (kind, value) in attributes(answer.get(16..).unwrap_or_default()) {
            let word = || value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            let long = |at: usize| {
                let bytes = value.get(at * 8..).and_then(<[u8]>::first_chunk);
                bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
            };
            match kind {
                libc::IFLA_ADDRESS => link.mac = value.to_vec(),
                libc::IFLA_MTU => link.mtu = word(),
                libc::IFLA_NUM_RX_QUEUES => link.queues_max = word(),
                // IFLA_PARENT_DEV_NAME
                56 => link.has_parent = true,
                // rtnl_link_stats64: received, sent, bytes of both, errors of both, then dropped.
                libc::IFLA_STATS64 => {
                    (link.received, link.sent, link.dropped) = (long(0), long(1), long(6));
                }
                _ => {}
            }
        }
        Ok(link)
    }

    /// Sends a request and waits for its acknowledgement.
    fn ask(&self, message: Message) -> io::Result<()> {
        self.list(message).map(drop)
    }

    /// Sends a request; returns the bodies of the reply's messages.
    fn list(&self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        let message = message.finish();
        let is_acknowledged = u16::from_ne_bytes([message[6], message[7]]) & 4 != 0;
        retry_on_intr(|| send(&self.fd, &message, SendFlags::empty()))?;
        let (mut bodies, mut buffer) = (Vec::new(), vec![0_u8; 1 << 16]);
        loop {
            let (_, len) = retry_on_intr(|| recv(&self.fd, &mut buffer[..], RecvFlags::empty()))?;
            let mut rest = &buffer[..len];
            while let Some((head, body, behind)) = split(rest) {
                rest = behind;
                match head {
                    // NLMSG_ERROR, with 0 for success.
                    2 => {
                        let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                        if code != 0 {
                            return Err(io::Error::from_raw_os_error(-code));
                        }
                        return Ok(bodies);
                    }
                    // NLMSG_DONE ends a list.
                    3 => return Ok(bodies),
                    _ => bodies.push(body.to_vec()),
                }
            }
            if !is_acknowledged && !bodies.is_empty() {
                return Ok(bodies);
            }
        }
    }
}

/// The number of handshakes in progress at a TCP listener: the SYN has come, the ACK has not
/// (sock_diag(7)). The listener does not count them. `/proc/net/tcp` tells them too, in the text of
/// all connections of the machine, which takes twenty times as long.
///
/// # Errors
/// `ENOENT` where the kernel has no such diagnosis.
pub fn handshakes(listener: SocketAddr) -> io::Result<usize> {
    let family = if listener.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    diagnosed(family, SYN_RECV, listener.port()).map(|found| found.len())
}

/// A listening socket of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenQueue {
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// The number of them from which further ones are dropped: the backlog of listen(2).
    pub backlog: u32,
    /// The number by which `/proc/PID/fd` names the socket.
    pub inode: u32,
    /// Whether it has an address of IPv6.
    pub is_v6: bool,
}

/// The sockets of this network that listen on a port, of both families (sock_diag(7)).
///
/// # Errors
/// `ENOENT` where the kernel has no such diagnosis.
pub fn listen_queues(port: u16) -> io::Result<Vec<ListenQueue>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for body in diagnosed(family, LISTEN, port)? {
            // An inet_diag_msg: after the addresses and a timer the queues, the user, the inode.
            let word = |at: usize| {
                let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u32::from_ne_bytes)
            };
            let (waiting, backlog, inode) = (word(56), word(60), word(68));
            let is_v6 = family == libc::AF_INET6;
            found.push(ListenQueue { waiting, backlog, inode, is_v6 });
        }
    }
    Ok(found)
}

/// The kernel's account of the TCP sockets of a family on a local port, in any of `states`.
fn diagnosed(family: i32, states: u32, port: u16) -> io::Result<Vec<Vec<u8>>> {
    let mut wanted = Message::new(BY_FAMILY, ACK | LIST);
    // An inet_diag_req_v2: protocol and states, the local port, and any other address.
    wanted.put(&[family as u8, libc::IPPROTO_TCP as u8, 0, 0]).put(&states.to_ne_bytes());
    wanted.put(&port.to_be_bytes()).put(&[0; 38]).put(&[0xff; 8]);
    Netlink::about(Some(netlink::SOCK_DIAG))?.list(wanted)
}

/// Runs `act` in a separate network namespace (`CLONE_NEWNET` of unshare(2)), which has a
/// loopback device and nothing else. Devices set up there are invisible outside and end with it.
/// Sockets of other namespaces work there as before.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`; the error of `act`.
///
/// # Panics
/// As `act` does.
pub fn apart<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let inside = || {
        // SAFETY: no memory is passed; only this thread, which ends here, changes its network.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
        let loopback = index_of(c"lo").ok_or(io::ErrorKind::NotFound)?;
        Netlink::open()?.raise(loopback)?;
        act()
    };
    let lived = std::thread::scope(|scope| scope.spawn(inside).join());
    lived.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Moves this process into a separate network, as [`apart`] does with a thread; programs that it
/// starts share that network. Without `CAP_SYS_ADMIN` it also enters a user namespace, in which it
/// keeps its own user and group and knows no others.
///
/// # Errors
/// `EPERM`, `ENOSPC` where users may not make namespaces (user_namespaces(7)); `EINVAL` with a
/// second thread, which would stay behind.
pub fn isolate() -> io::Result<()> {
    // SAFETY: no memory is passed.
    if check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).is_err() {
        let (user, group) = (own::user(), rustix::process::getegid().as_raw());
        // SAFETY: no memory is passed.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) })?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    let loopback = index_of(c"lo").ok_or(io::ErrorKind::NotFound)?;
    Netlink::open()?.raise(loopback)
}

/// Moves this thread into another network (`/proc/PID/ns/net`); its sockets stay there.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`; `EINVAL` for another file.
pub fn enter(network: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// The index of a device of this network namespace.
#[must_use]
pub fn index_of(name: &CStr) -> Option<u32> {
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// Every device of this network namespace: index and name.
///
/// # Errors
/// No descriptor or no memory is left.
pub fn devices() -> io::Result<Vec<(u32, CString)>> {
    let mut ask = Message::new(libc::RTM_GETLINK, ACK | LIST);
    ask.put(&[0; 16]);
    let device = |body: Vec<u8>| {
        // An ifinfomsg has the index after its first four bytes.
        let index = u32::from_ne_bytes(*body.get(4..)?.first_chunk()?);
        let mut all = attributes(body.get(16..)?);
        let name = all.find_map(|(kind, value)| (kind == libc::IFLA_IFNAME).then_some(value))?;
        Some((index, CStr::from_bytes_until_nul(name).ok()?.to_owned()))
    };
    Ok(Netlink::open()?.list(ask)?.into_iter().filter_map(device).collect())
}

/// A message about queues and filters: a tcmsg.
fn traffic(kind: u16, flags: u16, device: u32, handle: u32, parent: u32, info: u32) -> Message {
    let mut message = Message::new(kind, ACK | flags);
    message.put(&[0; 4]);
    for word in [device, handle, parent, info] {
        message.put(&word.to_ne_bytes());
    }
    message
}

/// The first message, as its kind and its body, and the bytes after it.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(16..len)?;
    Some((kind, body, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// Kinds and values.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A message under construction.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Message {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | 1).to_ne_bytes());
        Message(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Message {
        self.0.extend_from_slice(bytes);
        self
    }

    fn replace(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Begins a nested attribute; [`Message::close`] takes the result.
    fn open(&mut self, kind: u16) -> usize {
        let at = self.0.len();
        self.put(&[0; 2]).put(&kind.to_ne_bytes());
        at
    }

    fn close(&mut self, at: usize) -> &mut Message {
        let len = (self.0.len() - at) as u16;
        self.replace(at, &len.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Message {
        let at = self.open(kind);
        self.put(value).close(at)
    }

    fn text(&mut self, kind: u16, value: &CStr) -> &mut Message {
        self.attribute(kind, value.to_bytes_with_nul())
    }

    fn finish(mut self) -> Vec<u8> {
        let len = (self.0.len() as u32).to_ne_bytes();
        self.replace(0, &len);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::set_option;

    #[test]
    fn what_is_written_can_be_read() {
        let mut message = Message::new(7, ACK);
        message.put(b"abcd").text(3, c"name");
        let list = message.open(4);
        message.attribute(1, &[9; 3]).close(list);
        let bytes = message.finish();
        let (kind, body, rest) = split(&bytes).expect("a whole message");
        assert_eq!((kind, rest.len(), &body[..4]), (7, 0, &b"abcd"[..]));
        let found: Vec<_> = attributes(&body[4..]).collect();
        assert_eq!(found[0], (3, &b"name\0"[..]));
        assert_eq!(attributes(found[1].1).collect::<Vec<_>>(), [(1, &[9; 3][..])]);
        // A truncated message ends the iteration.
        for len in 0..bytes.len() {
            assert!(split(&bytes[..len]).is_none_or(|(_, body, _)| body.len() < len));
            assert!(attributes(&bytes[4..len.max(4)]).count() < 20);
        }
    }

    #[test]
    fn a_handshake_without_its_end_is_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        // The kernel leaves a connection in this state until its first byte comes.
        set_option(&listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &5_i32).expect("TCP");
        let address = listener.local_addr().expect("it listens");
        assert_eq!(handshakes(address).expect("a list"), 0);
        let peers = [(); 3].map(|()| std::net::TcpStream::connect(address).expect("a client"));
        assert_eq!(handshakes(address).expect("a list"), 3);
        let other = SocketAddr::new(address.ip(), 1);
        assert_eq!(handshakes(other).expect("a list"), 0);
        drop(peers);
    }

    #[test]
    fn the_loopback_device_is_known_and_counts() {
        let index = index_of(c"lo").expect("every namespace has one");
        assert!(devices().expect("a list").iter().any(|it| *it == (index, c"lo".to_owned())));
        let link = Netlink::open().and_then(|netlink| netlink.link(index)).expect("a device");
        assert!(link.sent <= link.received || link.received > 0, "{link:?}");
        let none = Netlink::open().expect("a socket").link(0x7fff_ffff);
        assert!(none.is_err(), "{none:?}");
    }
}
