//! The flags that say in front of whom packets are sent.

use pacing::Rank;

/// The rank of who sends.
#[derive(clap::Args)]
pub struct RankArgs {
    /// The nice value of who sends, -20 (first) to 19, and of nobody else
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "fifo",
          value_parser = clap::value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,
    /// Send in front of everybody: the real-time priority (SCHED_FIFO, 1 to 99) of who sends, and
    /// of nobody else
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    fifo: Option<u32>,
}

impl RankArgs {
    /// What they say.
    pub fn rank(&self) -> Rank {
        match (self.nice, self.fifo) {
            (_, Some(priority)) => Rank::Fifo(priority),
            (Some(value), None) => Rank::Nice(value),
            (None, None) => Rank::Usual,
        }
    }
}
