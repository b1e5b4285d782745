//! The flags for the scheduling rank of a sender.

use pacing::Rank;

/// The rank of the sending thread or process.
#[derive(clap::Args)]
pub struct RankArgs {
    /// Nice value of the sender only, -20 (first) to 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "fifo",
          value_parser = clap::value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,
    /// Real-time priority of the sender only (SCHED_FIFO, 1 to 99), above all other programs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    fifo: Option<u32>,
}

impl RankArgs {
    /// The rank.
    pub fn rank(&self) -> Rank {
        match (self.nice, self.fifo) {
            (_, Some(priority)) => Rank::Fifo(priority),
            (Some(value), None) => Rank::Nice(value),
            (None, None) => Rank::Usual,
        }
    }
}
