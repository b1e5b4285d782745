//! The table of senders: what each is called, how it works, what it needs, and where to read it.

use super::Sender;

/// A row of the table.
pub(super) struct Row {
    pub sender: Sender,
    pub name: &'static str,
    pub how: &'static str,
    pub needs: &'static str,
    pub code: &'static str,
}

const fn row(sender: Sender, name: &'static str, [how, needs, code]: [&'static str; 3]) -> Row {
    Row { sender, name, how, needs, code }
}

/// Every sender, once.
pub(super) const ROWS: &[Row] = &[
    row(
        Sender::Plain,
        "plain",
        ["thread a cast; pread, sendto, relative sleep", "nothing", "casts/plain.rs"],
    ),
    row(
        Sender::PlainAbs,
        "plain-abs",
        ["thread a cast; pread, sendto, sleep until", "nothing", "casts/plain.rs"],
    ),
    row(
        Sender::WheelSendto,
        "wheel-sendto",
        ["timer wheel; pread, sendto a packet", "nothing", "senders/sendto.rs"],
    ),
    row(
        Sender::WheelMmap,
        "wheel-mmap",
        ["timer wheel; sendmsg a packet from the mapped file", "nothing", "senders/messages.rs"],
    ),
    row(
        Sender::Sendmmsg,
        "sendmmsg",
        ["timer wheel; one sendmmsg for all that is due", "Linux 3.0", "senders/messages.rs"],
    ),
    row(
        Sender::Gso,
        "gso",
        ["timer wheel; sendmsg a burst, cut by the kernel", "Linux 4.18", "senders/gso.rs"],
    ),
    row(
        Sender::SendmmsgGso,
        "sendmmsg+gso",
        ["timer wheel; one sendmmsg for all such bursts", "Linux 4.18", "senders/gso.rs"],
    ),
    row(
        Sender::MsgZerocopy,
        "msg-zerocopy",
        ["timer wheel; sendmsg that pins our pages", "Linux 5.0", "senders/zerocopy.rs"],
    ),
    row(
        Sender::Sendfile,
        "sendfile",
        ["timer wheel; a head, then sendfile behind it", "nothing", "senders/pages.rs"],
    ),
    row(
        Sender::Splice,
        "splice",
        ["timer wheel; file to pipe to socket, behind a head", "nothing", "senders/pages.rs"],
    ),
    row(
        Sender::SendfileGso,
        "sendfile-gso",
        ["timer wheel; pages of a burst, cut by the kernel", "Linux 6.5", "senders/leaves.rs"],
    ),
    row(
        Sender::UringBatch,
        "uring-batch",
        ["timer wheel; one io_uring_enter for all that is due", "io_uring", "senders/ring.rs"],
    ),
    row(
        Sender::UringZc,
        "uring-zc",
        ["timer wheel; the same, from pinned pages", "io_uring of 6.1", "senders/ring.rs"],
    ),
    row(
        Sender::XdpRun,
        "xdp-run",
        [
            "timer wheel; a program in the kernel makes every frame, by one call",
            "root, Linux 6.3, veth",
            "senders/frames.rs",
        ],
    ),
    row(
        Sender::UringChain,
        "uring-chain",
        ["the kernel waits, reads, sends: one call for seconds", "io_uring", "senders/chains.rs"],
    ),
    row(
        Sender::UringChainSqpoll,
        "uring-chain-sqpoll",
        ["the same, by a thread of the kernel's", "io_uring", "senders/chains.rs"],
    ),
    row(
        Sender::TbfKernel,
        "tbf-kernel",
        [
            "a token bucket lets them go by the kernel's timer interrupt",
            "root, ifb, tbf, cls_bpf",
            "casts/queued.rs",
        ],
    ),
    row(
        Sender::BpfStamp,
        "bpf-stamp",
        [
            "the same; the kernel writes number and time of each head",
            "root, ifb, tbf, cls_bpf",
            "senders/stamps.rs",
        ],
    ),
];
