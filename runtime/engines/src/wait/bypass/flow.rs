//! One connection of TCP in user space, as its session and as the stack see it.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::time::Duration;

use seam::{Instant, Out, SessionId};
use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Duration as Span;
use sys::beneath::{Wait, read_at};
use sys::socket::Received;

use super::frame::Mac;
use crate::limits::{SEND_SLICES, SENDFILE_BYTES};
use crate::parts::assets::Assets;
use crate::parts::transmit::CallMode;
use crate::parts::transport::ByteStream;

/// The part of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStage {
    /// The handshake is not over.
    Handshake,
    /// It waits to be accepted.
    Queued,
    /// A session has it, whose events have this key.
    Served(u64),
    /// Its session is over; the stack sends the rest.
    Orphan,
}

/// The settings of every connection.
#[derive(Clone, Copy, Debug)]
pub struct FlowSettings {
    /// Bytes of the buffer for input, and the window.
    pub input: usize,
    /// Bytes of the buffer for output that is not acknowledged.
    pub output: usize,
    /// Small segments leave at once.
    pub nodelay: bool,
    /// Silence after which the peer is probed; zero: never.
    pub keepalive: Duration,
}

/// Silence after which a peer of a handshake or of a closed connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection.
pub struct Flow {
    /// smoltcp walks through a whole set at each packet, so each connection has its own.
    pub set: SocketSet<'static>,
    handle: SocketHandle,
    pub peer: SocketAddrV4,
    /// The neighbour that the last segment came from gets the answers.
    pub mac: Mac,
    pub stage: FlowStage,
    /// It is in the list of connections that the stack must look at.
    pub is_touched: bool,
    /// The session waits for room.
    pub is_full: bool,
    /// The ends that its session was told of: of the input, and of the connection.
    pub ends: (bool, bool),
    /// It is among those that wait for late segments.
    pub is_resting: bool,
    /// The close resets the connection.
    resets: bool,
    /// Its entry among the deadlines.
    pub scheduled: Instant,
    /// When a closed connection is given up, whatever its peer does.
    pub over_at: Instant,
}

impl Flow {
    /// A connection that waits for its first segment.
    pub fn new(port: u16, peer: SocketAddrV4, mac: Mac, settings: &FlowSettings) -> Flow {
        let buffer = |len| SocketBuffer::new(vec![0; len]);
        let mut socket = Socket::new(buffer(settings.input), buffer(settings.output));
        socket.set_nagle_enabled(!settings.nodelay);
        socket.set_congestion_control(CongestionControl::Reno);
        socket.set_timeout(Some(span(PATIENCE)));
        socket.listen(port).expect("a new socket, and a port that is not zero");
        let mut set = SocketSet::new(vec![SocketStorage::EMPTY]);
        let handle = set.add(socket);
        Flow {
            set,
            handle,
            peer,
            mac,
            stage: FlowStage::Handshake,
            is_touched: false,
            is_full: false,
            ends: (false, false),
            is_resting: false,
            resets: false,
            scheduled: Instant::NEVER,
            over_at: Instant::NEVER,
        }
    }

    pub fn socket(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    pub fn is_established(&mut self) -> bool {
        let state = self.socket().state();
        !matches!(state, State::Listen | State::SynReceived | State::Closed)
    }

    /// The handshake is over.
    pub fn establish(&mut self, settings: &FlowSettings) {
        self.stage = FlowStage::Queued;
        let silence = Some(settings.keepalive).filter(|silence| !silence.is_zero());
        let socket = self.socket();
        socket.set_keep_alive(silence.map(span));
        socket.set_timeout(silence.map(|silence| span(2 * silence)));
    }

    /// The session is over: the rest of its output and the end are sent, or a reset.
    pub fn release(&mut self, now: Instant) {
        self.stage = FlowStage::Orphan;
        self.over_at = now + 6 * PATIENCE;
        let resets = self.resets;
        let socket = self.socket();
        socket.set_keep_alive(None);
        socket.set_timeout(Some(span(PATIENCE)));
        // Input that nobody reads makes a close a reset (RFC 2525 section 2.17).
        match resets || socket.can_recv() {
            true => socket.abort(),
            false => socket.close(),
        }
    }

    /// Output or an end waits to be sent or acknowledged.
    pub fn owes(&mut self) -> bool {
        let state = self.socket().state();
        self.socket().send_queue() > 0
            || matches!(state, State::FinWait1 | State::Closing | State::LastAck)
    }
}

fn span(time: Duration) -> Span {
    Span::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Connections that the stack must look at before it waits.
pub type Touched = Rc<RefCell<Vec<SessionId>>>;

/// A connection in the hands of its session.
#[derive(Clone)]
pub struct Tcp {
    pub id: SessionId,
    pub flow: Rc<RefCell<Flow>>,
    pub touched: Touched,
}

impl Tcp {
    /// Makes the stack look at the connection.
    pub fn touch(&self, flow: &mut Flow) {
        if !std::mem::replace(&mut flow.is_touched, true) {
            self.touched.borrow_mut().push(self.id);
        }
    }

    fn send_file(&self, flow: &mut Flow, assets: &Assets, out: &Out) -> io::Result<usize> {
        let Some((source, range)) = out.front_file() else { return Ok(0) };
        let socket = flow.socket();
        let room = socket.send_capacity() - socket.send_queue();
        let len = (range.end - range.start).min(SENDFILE_BYTES as u64) as usize;
        let mut bytes = Vec::new();
        if room > 0 {
            read_at(assets.file(source)?, range.start, len.min(room), Wait::May, &mut bytes)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        flow.socket().send_slice(&bytes).map_err(|_| io::ErrorKind::ConnectionReset.into())
    }
}

impl ByteStream for Tcp {
    fn receive(&self, buffer: &mut [u8]) -> Received {
        let flow = &mut *self.flow.borrow_mut();
        let received = match flow.socket().recv_slice(buffer) {
            Ok(0) => Received::Later,
            Ok(len) => Received::Bytes(len),
            Err(RecvError::Finished) => Received::End,
            Err(RecvError::InvalidState) => Received::Broken,
        };
        if matches!(received, Received::Bytes(_)) {
            // The window has grown.
            self.touch(flow);
        }
        received
    }

    fn transmit(&self, assets: &Assets, out: &Out, _mode: CallMode) -> io::Result<usize> {
        let flow = &mut *self.flow.borrow_mut();
        let broken = |_| io::Error::from(io::ErrorKind::ConnectionReset);
        let mut sent = 0;
        if let Some(bytes) = out.single() {
            sent = flow.socket().send_slice(bytes).map_err(broken)?;
        } else if out.front_file().is_some() {
            sent = self.send_file(flow, assets, out)?;
        } else {
            let mut slices = [IoSlice::new(&[]); SEND_SLICES];
            let filled = out.gather(&mut slices);
            for slice in &slices[..filled] {
                let taken = flow.socket().send_slice(slice).map_err(broken)?;
                sent += taken;
                if taken < slice.len() {
                    break;
                }
            }
        }
        self.touch(flow);
        flow.is_full = sent == 0;
        if sent == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn unsent_bytes(&self) -> usize {
        self.flow.borrow_mut().socket().send_queue()
    }

    fn trust(&self) {
        // The buffer for output never grows.
    }

    fn shutdown_write(&self) -> io::Result<()> {
        let flow = &mut *self.flow.borrow_mut();
        if !flow.socket().may_send() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        flow.socket().close();
        self.touch(flow);
        Ok(())
    }

    fn cork(&self) {
        // Segments leave when the turn is over, the end with the last of them.
    }

    fn reset_at_close(&self) {
        self.flow.borrow_mut().resets = true;
    }

    fn last_received(&self) -> Option<Duration> {
        None
    }
}
