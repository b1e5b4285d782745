//! `uring-chain-sqpoll`: as [`super::uring_chain`], submitted and sent by a kernel thread.

use super::uring_chain::UringChain;
use super::{Row, Sender, Start};

pub(super) const ROW: Row = Row {
    sender: Sender::UringChainSqpoll,
    name: "uring-chain-sqpoll",
    how: "the same, by a thread of the kernel's",
    needs: "io_uring",
    sends_files: true,
    sets_up_queues: false,
    start: |_| Ok(Start::queue(UringChain::new(true)?)),
};
