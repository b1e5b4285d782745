//! Calls for single datagrams: one recvfrom(2), and one sendto(2) for each reply. The reference for
//! the other loops.

use std::io;
use std::time::Duration;

use memory::{Doing, Phase, SlotState};
use sys::socket;
use sys::udp::Letter;

use super::exchange::{Exchange, is_of_network};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::LETTER_ROOM;

/// The shortest wait for a datagram; zero would stand for any time (`SO_RCVTIMEO`).
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Serves until the server drains.
pub fn serve(context: &WorkerContext<'_>) -> Result<(), Fault> {
    run(context).map_err(Fault::Wait)
}

fn run(context: &WorkerContext<'_>) -> io::Result<()> {
    let mut exchange = Exchange::new(context, false, false)?;
    let mut buffer = vec![0; LETTER_ROOM];
    let (mut waits, mut drains) = (None, false);
    context.ready();
    loop {
        let phase = context.phase();
        if phase == Phase::Leaving || phase >= Phase::Forced {
            return Ok(());
        }
        if phase == Phase::Draining && !drains {
            drains = true;
            context.slot().set_state(SlotState::Draining);
            socket::set_nonblocking(&exchange.socket, true)?;
        }
        let timeout = Some(exchange.timeout().max(WAIT_MIN));
        if timeout != waits {
            waits = timeout;
            socket::set_receive_timeout(&exchange.socket, timeout)?;
        }
        context.rest(Doing::Waiting);
        let received = exchange.socket.receive(&mut buffer);
        exchange.begin_turn();
        match received {
            Ok((len, from)) => {
                let bytes = &buffer[..len];
                exchange.deliver(&Letter { bytes, is_cut: false, segment: 0, from, came_ns: 0 });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && drains => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if is_of_network(&error) => {}
            Err(error) => context.endure(error)?,
        }
        exchange.flush_each();
        exchange.end_turn();
    }
}
