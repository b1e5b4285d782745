//! All connections of one queue: TCP of smoltcp, one packet and one connection at a time.
//!
//! smoltcp looks for the connection of a packet, and for the one that must send, by walking through
//! a set of sockets. Here each connection has its own set: the stack finds it by its peer, in
//! constant time, and calls smoltcp with this set alone. A connection is looked at when a segment
//! came for it, its session did something, or its time has come ([`Deadlines`]); idle ones cost
//! memory only.
//!
//! A segment goes back to the neighbour from which the last one of the connection came, so the
//! stack needs no routes and asks no neighbour for an address.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::time::Duration;

use seam::{Instant, SessionId};
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::socket::tcp::State;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Cidr};
use sys::ready::Ready;

use super::flow::{Flow, FlowSettings, FlowStage, Tcp, Touched};
use super::frame::{ARP, Frame, Segment, Station};
use super::port::{NoOutlet, Outlet, Port, back, moment};
use crate::parts::deadlines::Deadlines;
use crate::parts::table::Table;

/// Connections that wait for late segments of their past (TIME-WAIT); older ones are forgotten, as
/// each keeps its buffers.
const TIME_WAIT_MAX: usize = 1024;

/// A segment that was due and could not leave is tried again after this time.
const RETRY: Duration = Duration::from_millis(1);

/// The connections of one queue.
pub struct TcpStack {
    place: Station,
    settings: FlowSettings,
    /// Handshakes, and connections that wait to be accepted, at most.
    backlog: usize,
    interface: Interface,
    flows: Table<Tcp>,
    by_peer: HashMap<SocketAddrV4, SessionId>,
    touched: Touched,
    deadlines: Deadlines,
    accepted: VecDeque<SessionId>,
    time_wait: VecDeque<SessionId>,
    /// Connections without a session whose handshake is not over.
    handshakes: usize,
    /// New connections are refused.
    pub is_closed: bool,
    /// For segments of no connection, which are answered by a reset.
    nothing: SocketSet<'static>,
}

impl TcpStack {
    /// A stack without connections, in which `shard` names the worker.
    pub fn new(place: Station, settings: FlowSettings, backlog: usize, shard: usize) -> TcpStack {
        let mut config = Config::new(HardwareAddress::Ip);
        // The first sequence numbers must not be guessed: keys of the hasher are random.
        config.random_seed = RandomState::new().build_hasher().finish();
        let mut none = NoOutlet;
        let mut port = Port::new(&place, &mut none, [0; 6]);
        let mut interface = Interface::new(config, &mut port, moment(Instant::ZERO));
        let own = IpCidr::Ipv4(Ipv4Cidr::new(*place.address.ip(), 32));
        interface.update_ip_addrs(|all| all.push(own).expect("room for one address"));
        TcpStack {
            place,
            settings,
            backlog,
            interface,
            flows: Table::new(shard),
            by_peer: HashMap::new(),
            touched: Touched::default(),
            deadlines: Deadlines::default(),
            accepted: VecDeque::new(),
            time_wait: VecDeque::new(),
            handshakes: 0,
            is_closed: false,
            nothing: SocketSet::new(Vec::new()),
        }
    }

    /// Takes in a frame.
    pub fn receive(&mut self, frame: &[u8], now: Instant, outlet: &mut impl Outlet) {
        match self.place.read(frame) {
            Some(Frame::Question { mac, address }) => {
                outlet.send(ARP, |frame| self.place.write_answer(frame, mac, address));
            }
            Some(Frame::Segment(segment)) => self.receive_segment(&segment, now, outlet),
            None => {}
        }
    }

    fn receive_segment(&mut self, segment: &Segment<'_>, now: Instant, outlet: &mut impl Outlet) {
        let Some(tcp) = self.flow_of(segment) else {
            if self.is_closed || !segment.is_first {
                let mut port = Port::new(&self.place, outlet, segment.mac);
                port.packet = Some(segment.packet);
                let nothing = &mut self.nothing;
                self.interface.poll_ingress_single(moment(now), &mut port, nothing);
            }
            return;
        };
        let flow = &mut *tcp.flow.borrow_mut();
        flow.mac = segment.mac;
        let mut port = Port::new(&self.place, outlet, segment.mac);
        port.packet = Some(segment.packet);
        self.interface.poll_ingress_single(moment(now), &mut port, &mut flow.set);
        tcp.touch(flow);
        let (is_established, has_input) = (flow.is_established(), flow.socket().can_recv());
        match flow.stage {
            FlowStage::Handshake if is_established => {
                self.handshakes -= 1;
                flow.establish(&self.settings);
                self.accepted.push_back(tcp.id);
            }
            // The session that would have read this input has ended.
            FlowStage::Orphan if has_input => flow.socket().abort(),
            _ => {}
        }
    }

    /// The connection of a segment, perhaps a new one.
    fn flow_of(&mut self, segment: &Segment<'_>) -> Option<Tcp> {
        let known = self.by_peer.get(&segment.peer).copied();
        if let Some(tcp) = known.and_then(|id| self.flows.lookup(id)) {
            let state = tcp.flow.borrow_mut().socket().state();
            if !segment.is_first || !matches!(state, State::TimeWait | State::Closed) {
                return Some(tcp.clone());
            }
            // The peer uses its port again.
            let id = tcp.id;
            self.forget(id);
        }
        let waiting = self.handshakes + self.accepted.len();
        if !segment.is_first || self.is_closed || waiting >= self.backlog {
            return None;
        }
        let flow = Flow::new(self.place.address.port(), segment.peer, segment.mac, &self.settings);
        let (id, touched) = (self.flows.next_id(), self.touched.clone());
        let tcp = Tcp { id, flow: Rc::new(RefCell::new(flow)), touched };
        self.flows.insert(tcp.clone());
        self.by_peer.insert(segment.peer, id);
        self.handshakes += 1;
        Some(tcp)
    }

    /// The next connection whose handshake is over.
    pub fn accept(&mut self) -> Option<Tcp> {
        let accepted = std::iter::from_fn(|| self.accepted.pop_front());
        accepted.filter_map(|id| self.flows.lookup(id).cloned()).next()
    }

    /// Whether a connection waits to be accepted.
    pub fn has_queue(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// The session of a connection is over.
    pub fn release(&mut self, tcp: &Tcp, now: Instant) {
        let flow = &mut *tcp.flow.borrow_mut();
        flow.release(now);
        tcp.touch(flow);
    }

    /// Whether a connection waits for [`TcpStack::report`] or [`TcpStack::send`].
    pub fn is_touched(&self) -> bool {
        !self.touched.borrow().is_empty()
    }

    /// Reports what sessions of touched connections may do now.
    pub fn report(&mut self, ready: &mut Vec<Ready>) {
        for &id in &*self.touched.borrow() {
            let Some(tcp) = self.flows.lookup(id) else { continue };
            let flow = &mut *tcp.flow.borrow_mut();
            let FlowStage::Served(key) = flow.stage else { continue };
            let socket = flow.socket();
            let (state, readable, writable) =
                (socket.state(), socket.can_recv(), socket.can_send());
            let (hangup, error) = (!socket.may_recv(), state == State::Closed);
            let has_ended = std::mem::replace(&mut flow.ends, (hangup, error)) != (hangup, error);
            let writable = flow.is_full && (writable || error);
            if readable || has_ended || writable {
                flow.is_full &= !writable;
                let readable = readable || hangup;
                ready.push(Ready { key, readable, writable, hangup, error });
            }
        }
    }

    /// Sends what touched connections owe, until no frame is free.
    pub fn send(&mut self, now: Instant, outlet: &mut impl Outlet) {
        let mut all = std::mem::take(&mut *self.touched.borrow_mut());
        for id in all.drain(..) {
            let Some(tcp) = self.flows.lookup(id).cloned() else { continue };
            let flow = &mut *tcp.flow.borrow_mut();
            flow.is_touched = false;
            let mut port = Port::new(&self.place, outlet, flow.mac);
            let now_there = moment(now);
            let set = &mut flow.set;
            while self.interface.poll_egress(now_there, &mut port, set) != PollResult::None {}
            let is_full = port.is_full;
            if self.follow(flow, id, now) {
                continue;
            }
            if is_full {
                // It is looked at again when frames have left.
                tcp.touch(flow);
            }
            let next = self.interface.poll_at(now_there, &flow.set);
            // A segment that is due now and did not leave must not keep the loop awake.
            let next = next.map(|next| back(next).max(now + RETRY));
            let next = next.unwrap_or(Instant::NEVER).min(flow.over_at);
            self.deadlines.ask(id, Some(next), &mut flow.scheduled);
        }
        if self.touched.borrow().is_empty() {
            // The list keeps its memory.
            *self.touched.borrow_mut() = all;
        }
    }

    /// Forgets a connection that is over; true if it did.
    fn follow(&mut self, flow: &mut Flow, id: SessionId, now: Instant) -> bool {
        let state = flow.socket().state();
        let is_over = match flow.stage {
            FlowStage::Served(_) | FlowStage::Queued => false,
            // smoltcp listens again after a reset.
            FlowStage::Handshake => matches!(state, State::Listen | State::Closed),
            FlowStage::Orphan => state == State::Closed || flow.over_at <= now,
        };
        if is_over {
            if flow.stage == FlowStage::Handshake {
                self.handshakes -= 1;
            }
            self.remove(flow.peer, id);
        } else if flow.stage == FlowStage::Orphan && state == State::TimeWait && !flow.is_resting {
            flow.is_resting = true;
            self.time_wait.push_back(id);
            if self.time_wait.len() > TIME_WAIT_MAX {
                let oldest = self.time_wait.pop_front().filter(|oldest| *oldest != id);
                oldest.into_iter().for_each(|oldest| self.forget(oldest));
            }
        }
        is_over
    }

    fn forget(&mut self, id: SessionId) {
        if let Some(tcp) = self.flows.lookup(id) {
            let peer = tcp.flow.borrow().peer;
            self.remove(peer, id);
        }
    }

    fn remove(&mut self, peer: SocketAddrV4, id: SessionId) {
        self.flows.remove(id);
        if self.by_peer.get(&peer) == Some(&id) {
            self.by_peer.remove(&peer);
        }
    }

    /// When a connection must be looked at next.
    pub fn next(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Touches connections whose time has come.
    pub fn wake_due(&mut self, now: Instant) {
        while let Some((entry, id)) = self.deadlines.due(now) {
            let Some(tcp) = self.flows.lookup(id) else { continue };
            let flow = &mut *tcp.flow.borrow_mut();
            if flow.scheduled == entry {
                flow.scheduled = Instant::NEVER;
                tcp.touch(flow);
            }
        }
    }

    /// Whether closed connections still have output to be sent or acknowledged.
    pub fn owes(&mut self) -> bool {
        let ids = self.flows.ids();
        let mut owes = |id| {
            self.flows.lookup(id).is_some_and(|tcp| {
                let flow = &mut *tcp.flow.borrow_mut();
                flow.stage == FlowStage::Orphan && flow.owes()
            })
        };
        ids.into_iter().any(&mut owes)
    }

    /// The number of connections in any state.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.flows.len()
    }
}
