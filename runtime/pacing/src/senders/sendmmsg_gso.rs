//! `sendmmsg+gso`: as [`super::gso`], with one sendmmsg(2) for the bursts of all streams.

use super::gso::Gso;
use super::{Row, Sender, Start};

pub(super) const ROW: Row = Row {
    sender: Sender::SendmmsgGso,
    name: "sendmmsg+gso",
    how: "timer wheel; one sendmmsg for all such bursts",
    needs: "Linux 4.18",
    sends_files: false,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(Gso::new(true))),
};
