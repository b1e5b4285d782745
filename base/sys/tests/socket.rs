//! Sockets over the loopback interface: the promises of each function, with real TCP at both ends.

use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::poll::{PollFd, poll};
use sys::socket::{self, ListenOptions, Received, SendFlags, SockRef, send_vectored};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const BLOCKING: ListenOptions = ListenOptions {
    backlog: 16,
    reuse_port: false,
    v6_only: false,
    nodelay: true,
    nonblocking: false,
    keepalive: None,
    unsent_max: None,
};

/// A client of the listener, blocking.
fn connect(listener: &OwnedFd) -> OwnedFd {
    TcpStream::connect(socket::local_addr(listener).unwrap()).unwrap().into()
}

/// Both ends of a fresh connection, both blocking: ours and the accepted one.
fn pair() -> (OwnedFd, OwnedFd) {
    pair_of(&BLOCKING)
}

/// The same of a listener with these options.
fn pair_of(options: &ListenOptions) -> (OwnedFd, OwnedFd) {
    let listener = socket::listen(LOOPBACK, options).unwrap();
    let client = connect(&listener);
    let (server, peer) = socket::accept(&listener, false).unwrap();
    assert_eq!(peer, socket::local_addr(&client).ok());
    (client, server)
}

/// Receives until `len` bytes or the end of input.
fn receive(fd: &OwnedFd, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while all.len() < len {
        match socket::recv(fd, &mut buffer).unwrap() {
            0 => break,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
    all
}

fn check_kind<T: std::fmt::Debug>(result: std::io::Result<T>, expected: ErrorKind) {
    assert_eq!(result.unwrap_err().kind(), expected);
}

#[test]
fn bytes_go_both_ways_and_ends_are_seen() {
    let (client, server) = pair();
    assert_eq!(socket::send(&client, b"ping").unwrap(), 4);
    assert_eq!(receive(&server, 4), b"ping");
    SockRef::from(&client).shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(receive(&server, 1), b"");
    assert_eq!(socket::send_nowait(&server, b"still here").unwrap(), 10);
    assert_eq!(receive(&client, 10), b"still here");
    assert_eq!(socket::peer_addr(&client).unwrap(), socket::local_addr(&server).unwrap());
}

#[test]
fn slices_arrive_in_order_however_many() {
    let (client, server) = pair();
    let parts: Vec<String> = (0..1500).map(|n| format!("{n},")).collect();
    let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part.as_bytes())).collect();
    let first = send_vectored(&client, &slices, SendFlags::empty()).unwrap();
    let expected_first: usize = parts[..1024].iter().map(String::len).sum();
    assert_eq!(first, expected_first);
    let second = send_vectored(&client, &slices[1024..], SendFlags::DONTWAIT).unwrap();
    assert_eq!(receive(&server, first + second), parts.concat().into_bytes());
    assert_eq!(send_vectored(&client, &[], SendFlags::MORE).unwrap(), 0);
}

#[test]
fn nowait_never_waits_on_a_blocking_descriptor() {
    let (client, _server) = pair();
    assert_eq!(socket::recv_nowait(&client, &mut [0; 1]), Received::Later);
    let block = vec![7; 1 << 20];
    let mut sent = 0;
    let full = loop {
        match socket::send_nowait(&client, &block) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    assert!(sent > 0 && socket::unsent_bytes(&client).unwrap() <= sent);
    let slices = [IoSlice::new(&block)];
    check_kind(send_vectored(&client, &slices, SendFlags::DONTWAIT), ErrorKind::WouldBlock);
}

#[test]
fn a_blocking_call_waits_as_long_as_it_was_told() {
    let (client, _server) = pair();
    let time = Duration::from_millis(20);
    let options = SockRef::from(&client);
    options.set_read_timeout(Some(time)).unwrap();
    let start = Instant::now();
    check_kind(socket::recv(&client, &mut [0; 1]), ErrorKind::WouldBlock);
    // The kernel counts this time in its own ticks, so it may end a tick early.
    assert!(start.elapsed() >= time / 2);
    options.set_write_timeout(Some(time)).unwrap();
    let block = vec![7; 1 << 20];
    let full = std::iter::repeat_with(|| socket::send(&client, &block)).find_map(Result::err);
    assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
    options.set_nonblocking(true).unwrap();
    options.set_read_timeout(None).unwrap();
    check_kind(socket::recv(&client, &mut [0; 1]), ErrorKind::WouldBlock);
}

#[test]
fn a_buffer_receives_into_its_capacity() {
    let (client, server) = pair();
    let mut buffer = Vec::with_capacity(8);
    buffer.extend(b"former");
    let capacity = buffer.capacity();
    socket::send(&client, &[b'x'; 100]).unwrap();
    assert_eq!(socket::recv_into(&server, &mut buffer), Received::Bytes(capacity));
    assert_eq!((&buffer[..], buffer.capacity()), (&vec![b'x'; capacity][..], capacity));
    drop(client);
    while let Received::Bytes(_) = socket::recv_into(&server, &mut buffer) {}
    assert_eq!(socket::recv_into(&server, &mut buffer), Received::End);
    assert!(buffer.is_empty());
}

#[test]
fn what_was_acknowledged_is_no_longer_unsent() {
    let (client, server) = pair();
    assert_eq!(socket::unsent_bytes(&client).unwrap(), 0);
    socket::send(&client, b"x").unwrap();
    assert_eq!(receive(&server, 1), b"x");
    let start = Instant::now();
    while socket::unsent_bytes(&client).unwrap() > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "loopback never acknowledged a byte");
    }
}

#[test]
fn a_linger_reset_is_a_reset_and_no_signal() {
    let (client, server) = pair();
    socket::set_linger_reset(&client).unwrap();
    drop(client);
    check_kind(socket::recv(&server, &mut [0; 1]), ErrorKind::ConnectionReset);
    // The second send on a dead connection is the one that would raise SIGPIPE.
    check_kind(socket::send(&server, b"x"), ErrorKind::BrokenPipe);
    check_kind(
        send_vectored(&server, &[IoSlice::new(b"x")], SendFlags::empty()),
        ErrorKind::BrokenPipe,
    );
    check_kind(socket::peer_addr(&server), ErrorKind::NotConnected);
}

#[test]
fn a_connection_can_be_made_in_two_steps() {
    let listener = socket::listen(LOOPBACK, &ListenOptions::default()).unwrap();
    check_kind(socket::accept(&listener, true), ErrorKind::WouldBlock);
    let address = socket::local_addr(&listener).unwrap();
    let client = socket::connect_nonblocking(address).unwrap();
    let mut wait = [PollFd::new(client.as_fd(), false, true)];
    assert_eq!(poll(&mut wait, Some(Duration::from_secs(10))).unwrap(), 1);
    assert!(SockRef::from(&client).take_error().unwrap().is_none());
    let (server, _) = socket::accept(&listener, true).unwrap();
    check_kind(socket::recv(&server, &mut [0; 1]), ErrorKind::WouldBlock);
    assert!(!sys::inherit::is_inheritable(&server).unwrap());
    assert!(!sys::inherit::is_inheritable(&client).unwrap());
}

#[test]
fn a_refused_connection_is_an_error() {
    let address = socket::local_addr(socket::listen(LOOPBACK, &BLOCKING).unwrap()).unwrap();
    if let Ok(client) = socket::connect_nonblocking(address) {
        poll(&mut [PollFd::new(client.as_fd(), false, true)], None).unwrap();
        let error = SockRef::from(&client).take_error().unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}

#[test]
fn accepted_sockets_inherit_nodelay() {
    for nodelay in [false, true] {
        let (_client, server) = pair_of(&ListenOptions { nodelay, ..BLOCKING });
        assert_eq!(SockRef::from(&server).tcp_nodelay().unwrap(), nodelay);
    }
}

/// The bytes that the kernel accepts for a peer that reads nothing, with the limit and after
/// lifting it.
fn taken_of_much(unsent_max: Option<u32>) -> [usize; 2] {
    let (_client, server) = pair_of(&ListenOptions { unsent_max, ..BLOCKING });
    let taken = || {
        let sent = || socket::send_nowait(&server, &[0; 64 << 10]);
        std::iter::from_fn(|| sent().ok()).sum::<usize>()
    };
    let first = taken();
    SockRef::from(&server).set_tcp_notsent_lowat(0).unwrap();
    [first, first + taken()]
}

#[test]
fn accepted_sockets_take_no_more_than_may_wait_unsent() {
    let ([all, _], [some, lifted]) = (taken_of_much(None), taken_of_much(Some(64 << 10)));
    // In addition to unsent bytes there are bytes in flight, bounded by the peer's buffer.
    assert!(some < all && some < lifted, "{some}, then {lifted} of {all} bytes");
}

#[test]
fn accepted_sockets_inherit_the_questions_to_the_silent() {
    let silence = Duration::from_millis(8_700);
    for keepalive in [None, Some(silence), Some(Duration::from_millis(1))] {
        let (_client, server) = pair_of(&ListenOptions { keepalive, ..BLOCKING });
        let server = SockRef::from(&server);
        assert_eq!(server.keepalive().unwrap(), keepalive.is_some());
        let times = (server.tcp_keepalive_time(), server.tcp_keepalive_interval());
        let seconds = (times.0.unwrap().as_secs(), times.1.unwrap().as_secs());
        match keepalive {
            Some(time) if time == silence => assert_eq!(seconds, (8, 2)),
            Some(_) => assert_eq!(seconds, (1, 1)),
            None => {}
        }
    }
}

#[test]
fn who_leaves_without_a_word_is_found_out_by_sending() {
    let (client, server) = pair();
    if let Err(error) = socket::abandon(client) {
        assert_eq!(error.raw_os_error(), Some(1), "expected a missing capability, found {error}");
        return;
    }
    assert_eq!(socket::recv_nowait(&server, &mut [0; 1]), Received::Later);
    assert_eq!(socket::send(&server, b"x").unwrap(), 1);
    check_kind(socket::recv(&server, &mut [0; 1]), ErrorKind::ConnectionReset);
}

#[test]
fn only_reuse_port_lets_two_listeners_share() {
    let shared = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let first = socket::listen(LOOPBACK, &shared).unwrap();
    let address = socket::local_addr(&first).unwrap();
    socket::listen(address, &shared).unwrap();
    check_kind(socket::listen(address, &ListenOptions::default()), ErrorKind::AddrInUse);
}

#[test]
fn both_families_are_spoken() {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let listener = match socket::listen(address, &BLOCKING) {
        // A machine without IPv6 has nothing to test here.
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => return,
        other => other.unwrap(),
    };
    let client = connect(&listener);
    let (_, peer) = socket::accept(&listener, false).unwrap();
    assert_eq!(peer, socket::local_addr(&client).ok());
    let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    check_kind(socket::local_addr(&near), ErrorKind::InvalidInput);
}

#[test]
fn a_file_is_not_replaced_by_a_listener() {
    let file = tempfile::NamedTempFile::new().unwrap();
    check_kind(socket::listen_unix(file.path(), None, &BLOCKING), ErrorKind::AddrInUse);
}
