//! `plain-abs`: `plain` with a sleep until the due time of the next packet (`TIMER_ABSTIME`). It
//! differs by one flag of the same call, and does not drift.

use super::{Sender, SenderRow, Start};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::PlainAbs,
    name: "plain-abs",
    how: "a thread per stream; pread, sendto, sleep until",
    needs: "nothing",
    sends_files: true,
    sets_up_queues: false,
    start: |_| Ok(Start::Threads { until_moment: true }),
};
