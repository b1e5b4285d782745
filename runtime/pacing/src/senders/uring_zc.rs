//! `uring-zc`: as [`super::uring_batch`], sent from our pages without a copy
//! (`IORING_OP_SENDMSG_ZC`).

use super::uring_batch::UringBatch;
use super::{Row, Sender, Start};

pub(super) const ROW: Row = Row {
    sender: Sender::UringZc,
    name: "uring-zc",
    how: "timer wheel; the same, from pinned pages",
    needs: "io_uring of 6.1",
    sends_files: false,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(UringBatch::new(true)?)),
};
