//! The stack in virtual time: smoltcp's own client at the other end of a wire that loses, repeats
//! and reorders frames, from a seed.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use seam::Instant;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Cidr};
use sys::socket::Received;

use super::flow::{FlowSettings, FlowStage, Tcp};
use super::frame::Station;
use super::port::{Outlet, Port, moment};
use super::stack::TcpStack;
use crate::parts::transport::ByteStream;

const SERVER: Station = place(1, 80);
const CLIENT: Station = place(2, 4096);
const SETTINGS: FlowSettings =
    FlowSettings { input: 2048, output: 4096, nodelay: true, keepalive: Duration::from_secs(60) };

const fn place(host: u8, port: u16) -> Station {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
    Station { mac: [2, 0, 0, 0, 0, host], address, mtu: 1500, is_virtual: false }
}

/// One direction of a wire: frames by the time at which they come.
struct Wire {
    random: u64,
    /// The number of frames in a thousand that are lost, and the number of those that come twice.
    faults: u64,
    now: Instant,
    frames: BTreeMap<(Instant, u64), Vec<u8>>,
    count: u64,
}

impl Wire {
    fn new(seed: u64, faults: u64) -> Wire {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Wire { random, faults, now: Instant::ZERO, frames: BTreeMap::new(), count: 0 }
    }

    /// A number below `end` (xorshift64).
    fn draw(&mut self, end: u64) -> u64 {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            self.random ^= if left { self.random << by } else { self.random >> by };
        }
        self.random % end
    }

    fn take(&mut self, now: Instant) -> Option<Vec<u8>> {
        let first = self.frames.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

impl Outlet for Wire {
    fn has_room(&mut self) -> bool {
        true
    }

    fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let mut frame = vec![0; len];
        write(&mut frame);
        let copies = match self.draw(1000) {
            lost if lost < self.faults => 0,
            twice if twice < 2 * self.faults => 2,
            _ => 1,
        };
        for _ in 0..copies {
            // Up to 3 ms on the way, so frames overtake each other where there are faults.
            let late = if self.faults > 0 { self.draw(3000) } else { 100 };
            self.count += 1;
            let at = self.now + Duration::from_micros(late);
            self.frames.insert((at, self.count), frame.clone());
        }
        true
    }
}

/// A client, a server that echoes, and the wires between them.
struct World {
    from: Station,
    now: Instant,
    up: Wire,
    down: Wire,
    stack: TcpStack,
    served: Vec<Tcp>,
    interface: Interface,
    set: SocketSet<'static>,
    handle: SocketHandle,
}

impl World {
    fn new(seed: u64, faults: u64) -> World {
        World::of(CLIENT, seed, faults)
    }

    fn of(from: Station, seed: u64, faults: u64) -> World {
        let (mut up, down) = (Wire::new(seed, faults), Wire::new(seed + 1_000_000, faults));
        let mut port = Port::new(&from, &mut up, SERVER.mac);
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut port, moment(Instant::ZERO));
        let own = IpCidr::Ipv4(Ipv4Cidr::new(*from.address.ip(), 24));
        interface.update_ip_addrs(|all| all.push(own).expect("room"));
        let buffer = || SocketBuffer::new(vec![0; 8192]);
        let mut socket = Socket::new(buffer(), buffer());
        let to = (IpAddress::Ipv4(*SERVER.address.ip()), SERVER.address.port());
        socket.connect(interface.context(), to, from.address.port()).expect("a free socket");
        let mut set = SocketSet::new(Vec::new());
        let handle = set.add(socket);
        let stack = TcpStack::new(SERVER, SETTINGS, 16, 0);
        let (now, served) = (Instant::ZERO, Vec::new());
        World { from, now, up, down, stack, served, interface, set, handle }
    }

    fn client(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// A millisecond goes by.
    fn step(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        (self.up.now, self.down.now) = (self.now, self.now);
        while let Some(frame) = self.up.take(self.now) {
            self.stack.receive(&frame, self.now, &mut self.down);
        }
        self.stack.wake_due(self.now);
        while let Some(tcp) = self.stack.accept() {
            tcp.flow.borrow_mut().stage = FlowStage::Served(0);
            self.served.push(tcp);
        }
        self.stack.report(&mut Vec::new());
        self.serve();
        self.stack.send(self.now, &mut self.down);
        while let Some(frame) = self.down.take(self.now) {
            let mut port = Port::new(&self.from, &mut self.up, SERVER.mac);
            port.packet = Some(&frame[14..]);
            self.interface.poll_ingress_single(moment(self.now), &mut port, &mut self.set);
        }
        let mut port = Port::new(&self.from, &mut self.up, SERVER.mac);
        self.interface.poll(moment(self.now), &mut port, &mut self.set);
    }

    /// Echoes as much as there is room for, and closes after the end or a reset.
    fn serve(&mut self) {
        let (now, stack) = (self.now, &mut self.stack);
        self.served.retain(|tcp| {
            let mut buffer = [0; 1024];
            let room = {
                let flow = &mut *tcp.flow.borrow_mut();
                flow.socket().send_capacity() - flow.socket().send_queue()
            };
            match tcp.receive(&mut buffer[..room.min(1024)]) {
                Received::Bytes(len) => {
                    let flow = &mut *tcp.flow.borrow_mut();
                    assert_eq!(flow.socket().send_slice(&buffer[..len]), Ok(len), "there is room");
                    tcp.touch(flow);
                    true
                }
                Received::Later => true,
                Received::End | Received::Broken => {
                    stack.release(tcp, now);
                    false
                }
            }
        });
    }

    fn run(&mut self, ms: u64, mut is_done: impl FnMut(&mut World) -> bool) -> bool {
        (0..ms).any(|_| {
            self.step();
            is_done(self)
        })
    }
}

/// Sends `total` bytes, expects them back in order, and closes.
fn check(seed: u64, faults: u64, total: usize) {
    let byte = |at: usize| (at * 31 + at / 251) as u8;
    let mut world = World::new(seed, faults);
    let (mut sent, mut back) = (0, 0);
    let is_whole = world.run(1_000_000, |world| {
        let client = world.client();
        if client.can_send() && sent < total {
            let piece: Vec<u8> = (sent..total.min(sent + 1000)).map(byte).collect();
            sent += client.send_slice(&piece).expect("it may send");
        }
        let mut buffer = [0; 2048];
        while let Ok(len @ 1..) = client.recv_slice(&mut buffer) {
            let wanted = (back..back + len).map(byte);
            assert!(buffer[..len].iter().copied().eq(wanted), "seed {seed}: at {back}");
            back += len;
        }
        back == total
    });
    assert!(is_whole, "seed {seed}: {back} of {total} bytes came back");
    world.client().close();
    let is_over = world.run(200_000, |world| world.stack.len() == 0);
    assert!(is_over, "seed {seed}: a closed connection stays");
}

#[test]
fn bytes_arrive_whole_and_in_order_on_a_bad_wire() {
    check(0, 0, 100_000);
    for seed in 1..=40 {
        check(seed, 50, 20_000);
    }
}

#[test]
fn a_reset_and_a_vanished_client_free_the_connection() {
    for vanishes in [false, true] {
        let mut world = World::new(7, 0);
        assert!(world.run(100, |world| !world.served.is_empty()), "it connects");
        world.client().abort();
        if vanishes {
            // The reset is lost, and all that follows: probes find no peer.
            world.up.faults = 1000;
        }
        assert!(world.run(300_000, |world| world.stack.len() == 0), "{vanishes}");
    }
}

#[test]
fn a_client_that_never_closes_is_given_up() {
    let mut world = World::new(8, 0);
    assert!(world.run(100, |world| !world.served.is_empty()), "it connects");
    let tcp = world.served.remove(0);
    world.stack.release(&tcp, world.now);
    assert!(world.run(10, |world| world.client().state() == State::CloseWait), "the end arrives");
    assert!(world.run(100_000, |world| world.stack.len() == 0));
}

#[test]
fn handshakes_are_bounded_and_end() {
    let mut world = World::new(9, 0);
    // The answers of the server are lost, so handshakes stay.
    world.down.faults = 1000;
    for port in 5000..5040 {
        let mut stranger = World::of(place(2, port), 1, 0);
        stranger.step();
        let frame = stranger.up.take(Instant::NEVER).expect("a SYN");
        world.stack.receive(&frame, world.now, &mut world.down);
    }
    assert_eq!(world.stack.len(), 16, "the backlog");
    assert!(world.run(60_000, |world| world.stack.len() <= 1));
}
