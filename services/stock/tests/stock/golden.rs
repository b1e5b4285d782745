//! Plays the transcripts in the simulator, with every lock and every index.

use crate::client::market_with;
use crate::transcript::{self, Transcript};
use ::stock::{Index, Lock, Options, Stock};
use sim::{Faults, Golden};
use std::path::Path;

/// The number of seeds of rough weather with which each transcript is played, for each lock and the
/// default index; other indexes get a quarter as many.
const SEEDS: u64 = 20;

fn check(path: &Path) {
    let Transcript { settings, book, talk } = transcript::read(path);
    let (mut options, mut kinds) = (Options::default(), Index::ALL.to_vec());
    for (name, value) in settings {
        match &*name {
            "framing" => options.framing = value.parse().expect("a framing"),
            "order" => options.order = value.parse().expect("an order"),
            "index" => {
                kinds = value.split(' ').map(|name| name.parse().expect("an index")).collect();
            }
            _ => panic!("{}: no such setting: {name}", path.display()),
        }
    }
    let golden = Golden::parse(&talk).unwrap_or_else(|bad| panic!("{}: {bad}", path.display()));
    let pairs = kinds.iter().flat_map(|kind| Lock::ALL.map(|lock| (*kind, lock)));
    for (kind, lock) in pairs {
        println!("{} under {lock}, book {kind}", path.display());
        let stock = Stock::new(Options { lock, ..options });
        let seeds = if kind == Index::default() { SEEDS } else { SEEDS / 4 };
        golden.play(&stock, || market_with(kind, &book), &Faults::calm(), seeds);
    }
}

#[test]
fn every_transcript() {
    transcript::all().iter().for_each(|path| check(path));
}
