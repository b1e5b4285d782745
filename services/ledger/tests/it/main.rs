//! The ledger on a simulated disk: power cuts at every operation, kills, errors, and the flaws that
//! these tests must catch.

mod closed;
mod crash;
mod disk;
