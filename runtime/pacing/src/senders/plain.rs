//! `plain`: a thread for each stream, which reads, sends and sleeps for the gap between two
//! packets.
//! Reading and sending lengthen each gap, so the stream drifts. This is the oldest sender, and the
//! baseline of the published comparison of in-kernel streaming. Its loop is in
//! [`crate::thread_per_stream`].

use super::{Sender, SenderRow, Start};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::Plain,
    name: "plain",
    how: "a thread per stream; pread, sendto, relative sleep",
    needs: "nothing",
    sends_files: true,
    sets_up_queues: false,
    start: |_| Ok(Start::Threads { until_moment: false }),
};
