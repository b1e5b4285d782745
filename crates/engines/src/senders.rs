//! How a burst leaves the machine: one file a way, all with the same packets.
//!
//! [`Sender`] is the table; the trait below is what those have in common that send what is due
//! *now*. Those that hand the kernel packets of the future are in `casts/`, for there the waiting
//! is the sender's.

pub(crate) mod chains;
mod forge;
mod frames;
mod gso;
mod jobs;
mod lane;
mod leaves;
mod maps;
mod messages;
pub(crate) mod outlet;
mod pages;
mod pair;
mod pauses;
pub(crate) mod probe;
mod ring;
mod sendto;
mod stamps;
mod table;
pub(crate) mod tokens;
pub(crate) mod train;
pub(crate) mod waiting;
mod ways;
mod zerocopy;

use std::fmt;
use std::io;
use std::str::FromStr;

use seam::{Burst, Channel};
use sys::udp::Udp;

use outlet::{Count, Outlet};
use table::{ROWS, Row};

use crate::casts::sockets::CastSockets;

/// Sends what is due now.
pub(crate) trait Transmit {
    /// Sends the packets in their order, each whole or not at all, and counts what became of them.
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count);

    /// Whether it sends from files that were opened at run time; for the others those are read into
    /// memory first, for a map of each would have to be kept.
    fn sends_open_files(&self) -> bool {
        false
    }

    /// Takes what the kernel has to tell about sends of the past, which else would wake the worker
    /// again and again.
    fn hear_notices(&mut self, socket: &Udp, channel: Channel) {
        let _ = (socket, channel);
    }
}

/// A way for packets to wait for their moment and to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A thread for each cast: read, send, sleep for the gap. It drifts by what the rest costs.
    Plain,
    /// The same with sleeps until a moment.
    PlainAbs,
    /// A timer wheel; a read and a sendto for each packet.
    WheelSendto,
    /// A timer wheel; files are mapped, a sendmsg for each packet.
    WheelMmap,
    /// A timer wheel; one sendmmsg for all that is due.
    Sendmmsg,
    /// A timer wheel; a sendmsg for each burst to one receiver, cut by the kernel.
    Gso,
    /// A timer wheel; one sendmmsg for all such bursts.
    SendmmsgGso,
    /// A timer wheel; sendmsg with `MSG_ZEROCOPY`.
    MsgZerocopy,
    /// A timer wheel; a head, then sendfile.
    Sendfile,
    /// A timer wheel; a head, then splice from the file through a pipe.
    Splice,
    /// A timer wheel; pages of files as one message, cut by the kernel.
    SendfileGso,
    /// A timer wheel; all that is due as entries of one ring.
    UringBatch,
    /// The same from pinned pages (`IORING_OP_SENDMSG_ZC`).
    UringZc,
    /// A timer wheel; a program in the kernel makes all frames by one call.
    XdpRun,
    /// The kernel waits, reads and sends: one submission for seconds of packets.
    UringChain,
    /// The same by a thread of the kernel's.
    UringChainSqpoll,
    /// A queue of the kernel's, filled ahead, lets packets go by its timer interrupt.
    TbfKernel,
    /// The same, with numbers and times written by a program in the kernel.
    BpfStamp,
}

impl Sender {
    /// Every sender, in the order of the table.
    pub fn all() -> impl Iterator<Item = Sender> {
        ROWS.iter().map(|row| row.sender)
    }

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.sender == self).expect("every sender has a row")
    }

    /// What `--sender` takes.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Who waits, and which calls send.
    pub fn how(self) -> &'static str {
        self.row().how
    }

    /// What it needs of kernel and privileges.
    pub fn needs(self) -> &'static str {
        self.row().needs
    }

    /// The file to read, below `crates/engines/src`.
    pub fn code(self) -> &'static str {
        self.row().code
    }

    /// The one for a server of audio and video: bursts of video are cut by the kernel, packets of
    /// audio leave together with those of other casts.
    pub const USUAL: Sender = Sender::SendmmsgGso;

    /// Whether it sends from files by itself, so that nothing is gained by having them in memory.
    pub fn sends_files(self) -> bool {
        use Sender::{
            Plain, PlainAbs, Sendfile, SendfileGso, Splice, UringChain, UringChainSqpoll,
            WheelSendto,
        };
        let waiting = [UringChain, UringChainSqpoll];
        let wheels = [WheelSendto, Sendfile, Splice, SendfileGso];
        [Plain, PlainAbs].contains(&self) || wheels.contains(&self) || waiting.contains(&self)
    }

    /// Whether it sets up queues, filters or devices of this machine's network.
    #[must_use]
    pub fn sets_up_queues(self) -> bool {
        matches!(self, Sender::TbfKernel | Sender::BpfStamp | Sender::XdpRun)
    }

    /// What sends for a worker with a timer wheel; `None` for the others.
    ///
    /// # Errors
    /// The kernel lacks something, or no descriptor is left.
    pub(crate) fn transmit(self, sockets: &CastSockets) -> io::Result<Option<Box<dyn Transmit>>> {
        Ok(Some(match self {
            Sender::Plain
            | Sender::PlainAbs
            | Sender::UringChain
            | Sender::UringChainSqpoll
            | Sender::TbfKernel
            | Sender::BpfStamp => return Ok(None),
            Sender::WheelSendto => Box::<sendto::Sendto>::default(),
            Sender::WheelMmap => Box::<messages::Each>::default(),
            Sender::Sendmmsg => Box::<messages::Many>::default(),
            Sender::Gso => Box::new(gso::Gso::new(false)),
            Sender::SendmmsgGso => Box::new(gso::Gso::new(true)),
            Sender::MsgZerocopy => Box::new(zerocopy::Zerocopy::new(sockets)?),
            Sender::Sendfile => Box::<pages::Sendfile>::default(),
            Sender::Splice => Box::new(pages::Splice::new()?),
            Sender::SendfileGso => Box::new(leaves::Leaves::new()?),
            Sender::UringBatch => Box::new(ring::Ring::new(false)?),
            Sender::UringZc => Box::new(ring::Ring::new(true)?),
            Sender::XdpRun => Box::new(frames::Frames::open(sockets)?),
        }))
    }
}

pub(crate) use sendto::Sendto;

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no sender of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSender(String);

impl fmt::Display for UnknownSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        write!(f, "expected a sender ({}), found `{}`", names.join(", "), self.0)
    }
}

impl std::error::Error for UnknownSender {}

impl FromStr for Sender {
    type Err = UnknownSender;

    fn from_str(name: &str) -> Result<Sender, UnknownSender> {
        let found = ROWS.iter().find(|row| row.name == name);
        found.map(|row| row.sender).ok_or_else(|| UnknownSender(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sender_has_one_row_and_is_known_by_its_name() {
        for sender in Sender::all() {
            assert_eq!(sender.name().parse(), Ok(sender));
            let code = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
            assert!(std::path::Path::new(code).join(sender.code()).is_file(), "{sender}");
        }
        let unknown = "sendmsg".parse::<Sender>().expect_err("no such sender").to_string();
        assert!(unknown.contains("sendmmsg") && unknown.contains("`sendmsg`"), "{unknown}");
    }
}
