//! Random packets in random pieces, with and without an operator: the replies are those of a loop
//! over ten bytes at a time.

use memory::Region;
use seam::Limits;
use stats::Rng;

use super::packet::{HEAD, LENGTH, LOGIN, PACKET, packet};
use super::{CloseReason, Echo, Options, Register};
use crate::cuts::{Cuts, exchange};

/// Sends about `events` packets from `seed`, on connections of up to a hundred.
///
/// # Panics
/// When a packet is lost, changed or late, or the seam's contract is broken; the message carries
/// the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let register = Region::<Register>::alone(&[]);
    for connection in 0..events.div_ceil(100) {
        let at = format!("services::echo::fuzz seed {seed}, connection {connection}");
        converse(&mut rng, &register, &at);
    }
}

fn converse(rng: &mut Rng, register: &Register, at: &str) {
    let output_high = 1 + rng.below(400);
    let limits = Limits { output_high, output_low: rng.below(output_high), ..LIMITS };
    let echo = Echo::new(Options { operated: rng.once_in(2), limits });
    let mut said: Vec<u8> = (0..rng.below(100)).flat_map(|_| packet(rng.roll())).collect();
    if rng.once_in(3) && !said.is_empty() {
        let place = rng.below(said.len());
        said[place] = said[place].wrapping_add(1);
    }
    let counted = register.closed(CloseReason::BadLength);
    let heard = exchange(rng, &echo, register, &said, &CUTS, at);
    let (owed, bad) = owed(&said);
    assert_eq!(heard, owed, "{at}");
    assert_eq!(register.closed(CloseReason::BadLength) - counted, u64::from(bad), "{at}");
}

const LIMITS: Limits = Limits { input_max: 4096, output_high: 0, output_low: 0, sessions_max: 1 };
const CUTS: Cuts<'_> = Cuts { pieces: &[60], sip: 200, notes: true };

/// The expected replies, and whether the server closes the connection.
fn owed(said: &[u8]) -> (Vec<u8>, bool) {
    let mut owed = packet(LOGIN).to_vec();
    for found in said.chunks(PACKET) {
        if found.len() >= HEAD && u16::from_le_bytes([found[0], found[1]]) != LENGTH {
            return (owed, true);
        }
        if found.len() == PACKET {
            owed.extend_from_slice(found);
        }
    }
    (owed, false)
}
