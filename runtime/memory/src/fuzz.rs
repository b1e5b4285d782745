//! Applies seeded operations to the table of sessions and compares with a simple model.

use seam::SessionId;
use stats::Rng;

use crate::session::SharedTable;

/// Opens, finds and closes sessions `events` times from `seed`, as far as one thread can test.
///
/// # Panics
/// When the table breaks one of its promises; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let at = format!("memory::fuzz seed {seed}");
    let capacity = 1 + rng.below(8);
    let table = SharedTable::new(5, capacity);
    let mut held = Vec::new();
    let mut open: Vec<SessionId> = Vec::new();
    let mut gone = vec![SessionId::from_bits(rng.roll() >> 4)];
    for event in 0..events {
        match rng.below(5) {
            0 => match table.open(event) {
                Ok(id) => open.push(id),
                Err(full) => assert_eq!(full.0, event, "{at}"),
            },
            1 if !open.is_empty() => held.extend(table.acquire(*rng.pick(&open))),
            2 if !open.is_empty() => {
                let id = open.swap_remove(rng.below(open.len()));
                assert!(table.close(id), "{at}: {id}");
                gone.push(id);
            }
            3 if !held.is_empty() => drop(held.swap_remove(rng.below(held.len()))),
            _ => {
                let id = *rng.pick(&gone);
                assert!(table.acquire(id).is_none(), "{at}: {id} was closed");
            }
        }
        assert_eq!(table.ids().count(), open.len(), "{at}");
        assert!(open.iter().all(|id| table.acquire(*id).is_some()), "{at}");
    }
}
