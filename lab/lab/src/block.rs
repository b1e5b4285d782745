//! Randomised complete blocks: every arm once per block and load point, in random order.
//!
//! Slow drift of a machine (temperature, neighbours, the time of day) affects all arms of a block
//! equally and cancels in the paired ratio. Load points run inside each block rather than one after
//! another, so that an interrupted race has the same number of blocks for all of them.

use crate::plan::{Plan, fnv1a};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

/// The position of one trial in the race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The position in the order of running, from 0.
    pub order: u32,
    /// Block, from 0.
    pub block: u32,
    /// Index into [`Plan::points`].
    pub point: usize,
    /// Index into [`Plan::entrants`].
    pub entrant: usize,
    /// The seed of the generator's arrivals and mix: the same for all arms of a block.
    pub seed: u64,
    /// Whether server and generator swap cores, as in odd blocks.
    pub swapped: bool,
}

/// All trials in the order of running.
pub fn schedule(plan: &Plan) -> Vec<Slot> {
    let entrants = plan.entrants().len();
    let mut slots = Vec::new();
    for block in 0..plan.blocks {
        for point in 0..plan.points.len() {
            let seed = mixed(plan.seed, block, point);
            let mut order: Vec<usize> = (0..entrants).collect();
            order.shuffle(&mut Pcg64::seed_from_u64(seed));
            slots.extend(order.into_iter().map(|entrant| Slot {
                order: 0,
                block,
                point,
                entrant,
                seed,
                swapped: block % 2 == 1,
            }));
        }
    }
    for (at, slot) in slots.iter_mut().enumerate() {
        slot.order = at as u32;
    }
    slots
}

/// A seed of 32 bits, so that it stays exact in any JSON reader.
fn mixed(seed: u64, block: u32, point: usize) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&block.to_le_bytes());
    bytes[12..].copy_from_slice(&(point as u32).to_le_bytes());
    let hash = fnv1a(bytes);
    (hash >> 32) ^ (hash & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    #[test]
    fn every_block_is_complete_and_shares_its_seed() {
        let plan = plan();
        let slots = schedule(&plan);
        assert_eq!(slots.len(), plan.trials() as usize);
        for group in slots.chunks(plan.entrants().len()) {
            let mut entrants: Vec<usize> = group.iter().map(|slot| slot.entrant).collect();
            entrants.sort_unstable();
            assert_eq!(entrants, [0, 1, 2, 3]);
            let first = &group[0];
            for slot in group {
                assert_eq!((slot.block, slot.point), (first.block, first.point));
                assert_eq!((slot.seed, slot.swapped), (first.seed, slot.block % 2 == 1));
            }
        }
    }

    #[test]
    fn orders_differ_between_blocks_and_repeat_from_the_seed() {
        let plan = plan();
        let slots = schedule(&plan);
        let order = |block: u32| -> Vec<usize> {
            slots.iter().filter(|slot| slot.block == block).map(|slot| slot.entrant).collect()
        };
        assert!((1..plan.blocks).any(|block| order(block) != order(0)));
        assert_eq!(slots, schedule(&plan));
    }
}
