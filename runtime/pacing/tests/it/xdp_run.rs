//! Frames that the kernel makes: on this machine, to a neighbour, and the packets that cannot go as
//! frames.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use engines::Assets;
use pacing::cbr::{CbrOrders, CbrSource, Contents, HEAD};
use pacing::{PacedRunner, Sender, StreamSockets, StreamStats, probe, run_alone};
use sys::netlink::{self, Netlink, apart};
use sys::udp::{Udp, UdpOptions};
use sys::xdp::{Attached, Verdict};
use testkit::skip;

const SENDER: Sender = Sender::XdpRun;
const PACKETS: u32 = 40;

/// Runs a test in a network namespace, if the sender works here.
fn tried(act: impl FnOnce() -> io::Result<()> + Send) {
    match probe(SENDER) {
        Ok(_) => apart(act).expect("as its probe was"),
        Err(why) => {
            println!("{SENDER}: {why}");
            skip("queues and programs of the kernel's");
        }
    }
}

fn receiver(ip: IpAddr) -> io::Result<Udp> {
    let options = UdpOptions { receive_buffer: Some(4 << 20), ..UdpOptions::default() };
    Udp::bind(SocketAddr::new(ip, 0), &options)
}

/// Sends a stream to each receiver; returns the number of datagrams that left by sockets.
fn send(sockets: &StreamSockets, payload: u32, to: Vec<SocketAddr>) -> io::Result<u64> {
    let contents =
        Contents::Shared(Arc::from((0..60_000).map(|at| (at / 7) as u8).collect::<Vec<u8>>()));
    let (streams, packets, ahead) = (to.len() as u32, PACKETS, Duration::from_secs(1));
    let steady = CbrSource::new(to, Duration::from_millis(2), contents);
    let source = CbrSource { streams, packets, payload, ahead, burst: 4, spread: false, ..steady };
    let (state, stats, before) = (CbrOrders::default(), StreamStats::default(), by_sockets()?);
    let runner = PacedRunner::new((&source, &state), SENDER, sockets, &stats);
    run_alone(&runner, &Assets::default(), Duration::ZERO, |_| {}).expect("it runs");
    let all = u64::from(streams * PACKETS);
    assert_eq!((stats.packets.read(), stats.failed.read()), (all, 0));
    Ok(by_sockets()? - before)
}

/// The number of datagrams so far that left by the sockets of this network, as the stack counts
/// them.
fn by_sockets() -> io::Result<u64> {
    let mut sum = 0;
    for (file, name) in [("snmp", "OutDatagrams"), ("snmp6", "Udp6OutDatagrams")] {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}"))?;
        let mut udp = text.lines().filter(|line| line.starts_with("Udp: "));
        let column = udp.next().and_then(|names| names.split(' ').position(|it| it == name));
        let one = text.lines().find_map(|line| line.strip_prefix(name));
        let value = match column {
            Some(column) => udp.next().and_then(|values| values.split(' ').nth(column)),
            None => one,
        };
        sum += value.and_then(|value| value.trim().parse::<u64>().ok()).expect("a count");
    }
    Ok(sum)
}

/// The packets that arrived: their numbers in order, and their source address.
fn came(socket: &Udp, payload: u32) -> (Vec<u32>, SocketAddr) {
    let (mut numbers, mut buffer) = (Vec::new(), vec![0; 70_000]);
    let mut from = BTreeMap::new();
    while socket.wait_readable(Duration::from_millis(300)).expect("open") {
        let (len, sender) = socket.receive(&mut buffer).expect("readable");
        let sent = u32::from(u16::from_be_bytes([buffer[2], buffer[3]]));
        let places = 60_000 / payload;
        let bytes = (0..payload).map(|at| ((sent % places * payload + at) / 7) as u8);
        assert!(buffer[HEAD..len].iter().copied().eq(bytes), "packet {sent} came changed");
        numbers.push(sent);
        *from.entry(sender).or_insert(0) += 1;
    }
    assert_eq!(from.len(), 1, "{from:?}");
    (numbers, *from.keys().next().expect("counted just now"))
}

/// The loopback address has its own device and its own rules; a strict filter lets nothing in.
#[test]
fn frames_for_this_machine_come_from_the_casters_socket() {
    tried(|| {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Netlink::open()?.add_pair([c"rhf4194304x0", c"rhf4194304y0"], [2, 0, 0, 0, 0, 7], None)?;
        for filter in ["0", "2", "1"] {
            std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", filter)?;
            for (ip, payload) in [(local, 33), (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 1400)] {
                let (socket, sockets) = (receiver(local)?, StreamSockets::bind(ip, 0)?);
                let others = send(&sockets, payload, vec![socket.local_addr()?])?;
                let (numbers, from) = came(&socket, payload);
                assert!(numbers.into_iter().eq(0..PACKETS), "filter {filter}");
                assert_eq!(from, SocketAddr::new(local, sockets.ports()?.0));
                let all = if filter == "1" { PACKETS } else { 0 };
                assert_eq!(others, u64::from(all), "filter {filter}");
            }
        }
        for (_, name) in netlink::devices()? {
            assert!(!name.to_bytes().starts_with(b"rhf"), "{name:?} was left");
        }
        Ok(())
    });
}

/// A machine at the other end of a wire: a network of its own, which lasts as long as its socket.
struct Neighbour {
    socket: Udp,
    address: [u8; 6],
    _takes_frames: Attached,
}

const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 2);

fn neighbour() -> io::Result<Neighbour> {
    let here = File::open("/proc/thread-self/ns/net")?;
    let neighbour = apart(|| {
        let netlink = Netlink::open()?;
        let address = [2, 0, 0, 0, 0, 2];
        let device = netlink.add_pair([c"there", c"here"], address, Some(here.as_fd()))?;
        netlink.add_address(device, THERE, 30)?;
        // The device of a `veth` takes frames when there is a program at its other end.
        let attached = Verdict::Pass.of_all(device)?;
        netlink.raise(device)?;
        let socket = receiver(IpAddr::V4(THERE))?;
        Ok(Neighbour { socket, address, _takes_frames: attached })
    })?;
    let netlink = Netlink::open()?;
    let device = netlink::index_of(c"here").ok_or(io::ErrorKind::NotFound)?;
    netlink.add_address(device, HERE, 30)?;
    netlink.raise(device)?;
    Ok(neighbour)
}

#[test]
fn frames_for_a_neighbour_leave_by_the_device_of_the_route() {
    tried(|| {
        let neighbour = neighbour()?;
        let to = neighbour.socket.local_addr()?;
        // The receiver's link address is not known yet. The socket resolves it, and frames follow;
        // they may overtake packets that waited for the answer.
        let sockets = StreamSockets::bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)?;
        let others = send(&sockets, 160, vec![to])?;
        assert!(others > 0, "the first are sent by the socket");
        let (mut numbers, from) = came(&neighbour.socket, 160);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..PACKETS));
        assert_eq!(from, SocketAddr::from((HERE, sockets.ports()?.0)));
        let device = netlink::index_of(c"here").ok_or(io::ErrorKind::NotFound)?;
        Netlink::open()?.add_neighbour(device, THERE, neighbour.address)?;
        for payload in [1, 32, 1459, 1460] {
            let sockets = StreamSockets::bind(IpAddr::V4(HERE), 0)?;
            assert_eq!(send(&sockets, payload, vec![to])?, 0, "{payload}");
            assert!(came(&neighbour.socket, payload).0.into_iter().eq(0..PACKETS), "{payload}");
        }
        Ok(())
    });
}

#[test]
fn what_frames_do_not_reach_leaves_by_the_socket() {
    tried(|| {
        let v6 = receiver(IpAddr::V6(Ipv6Addr::LOCALHOST))?;
        let v4 = receiver(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let sockets = StreamSockets::bind(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)?;
        // 9000 bytes fit a datagram of the loopback device, but not an ordinary frame.
        for (payload, others) in [(160, PACKETS), (9000, 2 * PACKETS)] {
            let to = vec![v6.local_addr()?, v4.local_addr()?];
            assert_eq!(send(&sockets, payload, to)?, u64::from(others), "{payload}");
            for socket in [&v6, &v4] {
                assert!(came(socket, payload).0.into_iter().eq(0..PACKETS), "{payload}");
            }
        }
        let loopback = netlink::index_of(c"lo").ok_or(io::ErrorKind::NotFound)?;
        Netlink::open()?.add_address(loopback, HERE, 24)?;
        let (here, name) = (IpAddr::V4(HERE), Ipv4Addr::new(239, 1, 2, 3));
        let group = receiver(IpAddr::V4(Ipv4Addr::UNSPECIFIED))?;
        group.join(IpAddr::V4(name), HERE)?;
        let sockets = StreamSockets::bind(here, 0)?;
        sockets.set_multicast(1, Some(here))?;
        let to = SocketAddr::from((name, group.local_addr()?.port()));
        assert_eq!(send(&sockets, 160, vec![to])?, u64::from(PACKETS));
        assert!(came(&group, 160).0.into_iter().eq(0..PACKETS));
        let sockets = StreamSockets::bind(IpAddr::V6(Ipv6Addr::LOCALHOST), 0)?;
        let (state, stats) = (CbrOrders::default(), StreamStats::default());
        let (to, contents) = (vec![v6.local_addr()?], Contents::Shared(Arc::from([7; 64])));
        let steady = CbrSource::new(to, Duration::from_millis(1), contents);
        let source = CbrSource { streams: 1, packets: 1, ..steady };
        let runner = PacedRunner::new((&source, &state), SENDER, &sockets, &stats);
        let stream = run_alone(&runner, &Assets::default(), Duration::ZERO, |_| {});
        let why = stream.expect_err("no frame of IPv6 is made").to_string();
        assert!(why.contains("IPv4") && why.contains("sendmmsg+gso"), "{why}");
        Ok(())
    });
}
