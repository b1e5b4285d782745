//! The flags of the sender's scheduling rank.

use pacing::Rank;

/// The rank of sending threads.
#[derive(clap::Args)]
pub struct RankArgs {
    /// The nice value of sending threads, -20 (first) to 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "fifo",
          value_parser = clap::value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,
    /// Send with real-time priority (SCHED_FIFO, 1 to 99)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    fifo: Option<u32>,
}

impl RankArgs {
    /// The chosen rank.
    pub fn rank(&self) -> Rank {
        match (self.nice, self.fifo) {
            (_, Some(priority)) => Rank::Fifo(priority),
            (Some(value), None) => Rank::Nice(value),
            (None, None) => Rank::Usual,
        }
    }
}
