//! A streaming worker: a paced source, a sender, and the loop between them.

use engines::{ExtraFault, ExtraWorker, ExtraWorkerEntry};
use seam::PacedSource;

use crate::classes::Classes;
use crate::context::StreamContext;
use crate::fault::Fault;
use crate::rank::Rank;
use crate::senders::{Sender, Start};
use crate::sockets::StreamSockets;
use crate::stats::StreamStats;
use crate::{kernel_queue, thread_per_stream, timer_wheel};

/// A streaming worker's source and its way of sending.
pub struct PacedRunner<'a, P: PacedSource> {
    /// The source of packets and their moments.
    pub source: &'a P,
    /// The state that the source shares with the sessions that order its streams.
    pub state: &'a P::State,
    /// How packets wait and leave.
    pub sender: Sender,
    /// The sockets that they leave from.
    pub sockets: &'a StreamSockets,
    /// The counters of the streams; they must lie where [`engines::Shape::placement`] says.
    pub stats: &'a StreamStats,
    /// The scheduling rank of the threads that send.
    pub rank: Rank,
    /// The treatment of the classes of packets.
    pub classes: Classes,
}

impl<'a, P: PacedSource> PacedRunner<'a, P> {
    /// A runner at the usual rank.
    pub fn new(
        (source, state): (&'a P, &'a P::State),
        sender: Sender,
        sockets: &'a StreamSockets,
        stats: &'a StreamStats,
    ) -> PacedRunner<'a, P> {
        let (rank, classes) = (Rank::Usual, Classes::default());
        PacedRunner { source, state, sender, sockets, stats, rank, classes }
    }

    /// Sends until the server ends.
    pub(crate) fn serve(&self, entry: &ExtraWorkerEntry<'_>) -> Result<(), Fault> {
        let context = StreamContext::new(self, entry).map_err(Fault::Wait)?;
        self.rank.take().map_err(Fault::Rank)?;
        let failed = |error| Fault::Sender(self.sender, error);
        match (self.sender.row().start)(self.sockets).map_err(failed)? {
            Start::Threads { until_moment } => thread_per_stream::serve(&context, until_moment),
            Start::Wheel(mut transmit) => timer_wheel::serve(&context, &mut *transmit),
            Start::Queue(mut queue) => kernel_queue::serve(&context, &mut *queue),
        }
        .map_err(failed)
    }
}

impl<P: PacedSource> ExtraWorker for PacedRunner<'_, P> {
    fn check(&self) -> Result<(), ExtraFault> {
        Ok(self.rank.check()?)
    }

    fn run(&self, entry: &ExtraWorkerEntry<'_>) -> Result<(), ExtraFault> {
        Ok(self.serve(entry)?)
    }
}
