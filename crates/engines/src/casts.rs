//! Who wakes a caster: a thread for each cast (`plain`), a timer wheel for all of them (`worker`),
//! or nobody, because the kernel has their packets already (`queued`).
//!
//! A caster's worker is a worker like the others: it has an entry and a slot, is a thread where the
//! others are threads and a process where they are processes, is replaced when it dies and leaves
//! when the server does. The sessions of the other workers order transmissions in the state that
//! they share with it and ring its bell.

pub(crate) mod alone;
pub(crate) mod context;
pub mod drum;
mod ears;
mod lag;
pub(crate) mod pacing;
mod plain;
mod queued;
pub(crate) mod rank;
pub(crate) mod sockets;
mod wheel;
mod worker;

use seam::Caster;

use crate::fault::Fault;
use crate::senders::Sender;
use crate::senders::chains::Chains;
use crate::senders::tokens::Tokens;
use context::{CastWorkerContext, CastWorkerEntry};
use pacing::Pacing;
use rank::{Rank, RankRefused};
use sockets::CastSockets;

/// What is cast beside what is served, and how.
pub struct Casting<'a, C: Caster> {
    /// The protocol's half that the clock drives.
    pub caster: &'a C,
    /// How packets wait and leave.
    pub sender: Sender,
    /// From where.
    pub sockets: &'a CastSockets,
    /// What came of it; it must lie where [`crate::Shape::placement`] says.
    pub pacing: &'a Pacing,
    /// In front of whom.
    pub rank: Rank,
}

impl<'a, C: Caster> Casting<'a, C> {
    /// One at the usual rank.
    pub fn new(
        caster: &'a C,
        sender: Sender,
        sockets: &'a CastSockets,
        pacing: &'a Pacing,
    ) -> Casting<'a, C> {
        Casting { caster, sender, sockets, pacing, rank: Rank::Usual }
    }

    /// The same at this rank.
    #[must_use]
    pub fn ranked(self, rank: Rank) -> Casting<'a, C> {
        Casting { rank, ..self }
    }
}

/// A [`Casting`] whose caster is forgotten: what a server that knows only the state can hold.
pub(crate) trait Troupe<T>: Sync {
    /// A worker's life, until the server ends.
    fn live(&self, entry: &CastWorkerEntry<'_, T>) -> Result<(), Fault>;

    /// Whether its workers could begin, as far as that can be said beforehand.
    fn check(&self) -> Result<(), RankRefused>;
}

impl<C: Caster> Troupe<C::State> for Casting<'_, C> {
    fn live(&self, entry: &CastWorkerEntry<'_, C::State>) -> Result<(), Fault> {
        let context = CastWorkerContext::new(self, entry).map_err(Fault::Wait)?;
        self.rank.take().map_err(Fault::Rank)?;
        let failed = |error| Fault::Cast(self.sender, error);
        match self.sender {
            Sender::Plain | Sender::PlainAbs => {
                plain::serve(&context, self.sender == Sender::PlainAbs)
            }
            Sender::UringChain | Sender::UringChainSqpoll => {
                let is_polled = self.sender == Sender::UringChainSqpoll;
                let chains = Chains::new(is_polled).map_err(failed)?;
                if is_polled {
                    self.rank.lend_to_ring().map_err(Fault::Rank)?;
                }
                queued::serve(&context, chains)
            }
            Sender::TbfKernel | Sender::BpfStamp => {
                let is_stamped = self.sender == Sender::BpfStamp;
                let tokens = Tokens::open(self.sockets, is_stamped).map_err(failed)?;
                queued::serve(&context, tokens)
            }
            wheel => {
                let transmit = wheel.transmit(self.sockets).map_err(failed)?;
                worker::serve(&context, &mut *transmit.expect("the others are those of the wheel"))
            }
        }
        .map_err(failed)
    }

    fn check(&self) -> Result<(), RankRefused> {
        self.rank.check()
    }
}
