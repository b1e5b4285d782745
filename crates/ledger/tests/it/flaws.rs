//! The checks object to each flaw.

use crate::crash::{Flaw, play};
use crate::disk::Lie;

fn check(flaw: Flaw, lie: Lie, objection: &str) {
    let found = (0..300).find_map(|seed| play(seed, flaw, lie).err());
    let found = found.unwrap_or_else(|| panic!("{flaw:?} and {lie:?} passed unnoticed"));
    assert!(found.contains(objection), "{flaw:?} and {lie:?}: {found}");
}

#[test]
fn each_flaw_is_caught() {
    check(Flaw::EarlyAck, Lie::None, "orders, found");
    check(Flaw::Twice, Lie::None, "once, found it in");
    check(Flaw::Retry, Lie::None, "orders, found");
    check(Flaw::None, Lie::DroppedSync, "");
    check(Flaw::None, Lie::DroppedNameSync, "");
}
