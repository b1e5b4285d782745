//! The senders: ways for packets to wait for their due time and to leave. Each is a file (some with
//! a folder of the same name) called as on the command line, with `_` for `-` and `+`; all send the
//! same packets.
//!
//! A sender's row describes it and says how it starts. [`Start`] has three kinds: a thread for each
//! stream, a [`Transmit`] that sends the due packets now, and a [`Queue`](queue::Queue) that takes
//! packets before they are due.

mod head_then_file;
mod kernel_rtp;
mod maps;
pub(crate) mod outlet;
mod plain;
mod plain_abs;
pub(crate) mod queue;
pub(crate) mod read_then_send;
pub(crate) mod send_plan;
mod sendfile;
mod sendmmsg;
mod sendmmsg_gso;
mod splice;
mod uring_chain;
mod wheel_mmap;

use std::io;
use std::str::FromStr;

use seam::Burst;

use outlet::{Count, Outlet};
use queue::Queue;

use crate::sockets::StreamSockets;

/// The description of a sender.
pub struct SenderRow {
    sender: Sender,
    /// The value of `--sender`.
    pub name: &'static str,
    /// The way of waiting, and the calls that send.
    pub how: &'static str,
    /// Its requirements of kernel and privileges.
    pub needs: &'static str,
    /// Whether it sends from files by itself, also from those that were opened at run time. For the
    /// other senders these are read into memory first, because each file would need a mapping that
    /// is kept.
    pub sends_files: bool,
    /// Whether it sets up queues, filters or devices of this machine's network.
    pub sets_up_queues: bool,
    /// Sets up the sender's resources; fails where the kernel lacks something, or no descriptor is
    /// left.
    pub(crate) start: fn(&StreamSockets) -> io::Result<Start>,
}

/// Every sender, once, in the order in which they are shown.
const ROWS: &[SenderRow] = &[
    plain::ROW,
    plain_abs::ROW,
    wheel_mmap::ROW,
    sendmmsg::ROW,
    sendmmsg_gso::ROW,
    sendfile::ROW,
    splice::ROW,
    uring_chain::ROW,
    kernel_rtp::ROW,
];

/// A sender that is ready to send, by the loop that drives it.
pub(crate) enum Start {
    /// A thread for each stream, which sleeps until a moment or for a time.
    Threads { until_moment: bool },
    /// A timer wheel wakes the sources, and the due packets are sent.
    Wheel(Box<dyn Transmit>),
    /// The kernel takes packets before they are due.
    Queue(Box<dyn Queue>),
}

impl Start {
    fn wheel(transmit: impl Transmit + 'static) -> Start {
        Start::Wheel(Box::new(transmit))
    }

    fn queue(queue: impl Queue + 'static) -> Start {
        Start::Queue(Box::new(queue))
    }
}

/// Sends a burst at once.
pub(crate) trait Transmit {
    /// Sends the packets in their order, each whole or not at all, and counts them.
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count);
}

/// A way for packets to wait for their moment and to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Sender {
    /// A thread for each stream: read, send, sleep for the gap. The stream drifts by the cost of
    /// reading and sending.
    Plain,
    /// [`Sender::Plain`], but each sleep lasts until a moment.
    PlainAbs,
    /// A timer wheel; files are mapped, a sendmsg for each packet.
    WheelMmap,
    /// A timer wheel; one sendmmsg for all packets that are due.
    Sendmmsg,
    /// A timer wheel; one sendmmsg for the bursts of all streams, each cut by the kernel.
    SendmmsgGso,
    /// A timer wheel; a header, then sendfile.
    Sendfile,
    /// A timer wheel; a header, then splice from the file through a pipe.
    Splice,
    /// The kernel waits, reads and sends: one submission for seconds of packets.
    UringChain,
    /// A queue in the kernel, filled ahead, releases packets by its timer interrupt; a program
    /// there writes the headers.
    KernelRtp,
}

impl Sender {
    /// Every sender, in the order of the table.
    pub fn all() -> impl Iterator<Item = Sender> {
        ROWS.iter().map(|row| row.sender)
    }

    /// Its description.
    pub fn row(self) -> &'static SenderRow {
        ROWS.iter().find(|row| row.sender == self).expect("every sender has a row")
    }

    /// The value of `--sender`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The file that shows how it works, below `runtime/pacing/src`.
    pub fn code(self) -> String {
        format!("senders/{}.rs", self.name().replace(['-', '+'], "_"))
    }

    /// The default for audio and video: the kernel segments bursts of video, and packets of audio
    /// leave together with those of other streams.
    pub const USUAL: Sender = Sender::SendmmsgGso;
}

/// No sender has that name.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display(
    "expected a sender ({}), found `{_0}`",
    ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownSender(String);

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
