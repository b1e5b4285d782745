//! The limits of every loop, each with its arithmetic; sums that matter are asserted at the end.
//!
//! [`Knobs`](crate::Knobs) holds the values that an operator may change. The values here follow
//! from the kernel, from measurements or from another limit.

use std::time::Duration;

use seam::Buffers;

// ---- bytes in one turn

/// Bytes that one receive takes: one scratch buffer serves all sessions of a worker. 64 KiB are a
/// few dozen segments, so the system call is a small part of the cost of moving them.
pub const RECEIVE_BYTES: usize = 64 << 10;
/// Bytes that one receive takes in a long turn: a client that sends requests and reads no replies
/// costs others as little as possible, and a head or a batch of short requests still fits.
pub const RECEIVE_BYTES_LONG: usize = 4 << 10;
/// Bytes that one receive takes in a turn that has become late: a few short requests.
pub const RECEIVE_BYTES_LATE: usize = 512;
/// A turn that lasted this long is late: the time of 256 more receives of requests that cost 0.2 us
/// a byte is 25 ms.
pub const TURN_TIME_LATE: Duration = Duration::from_millis(5);
/// A turn that lasted this long is long, whatever it moved: requests can cost much more than their
/// bytes.
pub const TURN_TIME: Duration = Duration::from_millis(1);
/// Receives of little between two looks at the clock: a look costs 30 ns.
pub const CLOCK_LOOK: u32 = 8;
/// A turn that moved this many bytes is long: sessions with more to move continue in the next turn,
/// after new events. The kernel takes about 0.1 ms to move them, of files or of memory.
pub const TURN_BYTES: usize = 4 * RECEIVE_BYTES;
/// Bytes that one session may send in a turn that is not long yet.
pub const SEND_BYTES: usize = TURN_BYTES;
/// Bytes that one session may send in a long turn: as many as one receive takes.
pub const SEND_BYTES_LONG: usize = RECEIVE_BYTES;
/// Bytes that one `sendfile(2)` sends: one call never moves more than a session may in a turn.
pub const SENDFILE_BYTES: usize = SEND_BYTES;
/// Bytes of files that one session of a completion port may send in one step: they cost no copy,
/// and continuing takes a round trip through the ring.
pub const PORT_FILE_BYTES: usize = 4 * SEND_BYTES;

// ---- sessions in one turn

/// Events that one wait takes from the kernel.
pub const EVENTS: usize = 256;
/// Connections that one turn accepts before it serves the others.
pub const ACCEPTS: usize = 64;
/// For this long after its start an idle ring looks for connections of which the kernel told the
/// ring of a killed worker: a kernel takes a ring apart up to tens of milliseconds after the end of
/// its process.
pub const RING_YOUTH: Duration = Duration::from_secs(2);
/// The interval between these looks.
pub const RING_LOOK: Duration = Duration::from_millis(50);
/// Sessions that one turn checks for being overdue: this takes about 0.1 ms, during which all
/// others wait.
pub const SWEEP_SESSIONS: usize = 256;
/// Overdue sessions that one turn closes. Closing a session whose peer takes no output frees the
/// kernel's buffers: 50 us, on a ring 200 us.
pub const SWEEP_CLOSES: usize = 4;
/// The pause between the parts of a sweep, in which other sessions are served.
pub const SWEEP_PAUSE: Duration = Duration::from_millis(1);
/// Sessions that one turn wakes because their deadline has come. Sessions that arrived together
/// have deadlines together, and are woken over several turns.
pub const WAKES: usize = 32;
/// The number of receives in a row from a peer that should stop sending.
pub const LINGER_RECEIVES: usize = 16;

// ---- pieces of output

/// Pieces of output that one `sendmsg(2)` takes: more than a batch of replies with shared bodies
/// has.
pub const SEND_SLICES: usize = 16;
/// Pieces of output that one send on a ring takes. It takes more than a call, because it cannot
/// continue in the same turn.
pub const RING_SLICES: usize = 64;

// ---- memory of one worker

/// Spare output buffers that an event loop keeps: a turn has at most [`EVENTS`] events, and seldom
/// touches more sessions.
pub const BUFFERS: usize = EVENTS;
/// Spare output buffers that a thread of a completion port keeps.
pub const PORT_BUFFERS: usize = 64;
/// Spare output buffers of a worker that serves one connection at a time.
pub const BLOCKING_BUFFERS: usize = 4;

/// Bytes that a connection may hold also when memory is short: a head of 16 KiB is always heard.
pub const HELD_FREE: usize = 16 << 10;
/// Bytes by which the connections of a worker grow before it compares the server's memory with the
/// budget.
pub const HELD_LOOK: usize = 16 << 10;

// ---- times

/// The interval of looks at connections while memory is short.
pub const SHORT_LOOK: Duration = Duration::from_millis(10);

/// At the limit of connections, a client that was silent for this long may have to make room.
pub const SILENCE_FULL: Duration = Duration::from_secs(2);

/// The longest wait of one call, so that a worker sees the server's phase and limits.
pub const WAIT: Duration = Duration::from_millis(250);
/// The time that a peer may still send after the last reply, before it is cut off. A close with
/// unread input resets the connection, which can destroy the reply on its way (RFC 9112, 9.6).
pub const LINGER: Duration = Duration::from_secs(2);
/// The same while the server drains, once the peer's kernel has the reply and the end: a round trip
/// in which a request that was on its way is dropped without a reset.
pub const LINGER_DRAINED: Duration = Duration::from_millis(250);
/// The longest tick of the kernel's clock (`CONFIG_HZ=100`), by which times of `TCP_INFO` err.
pub const KERNEL_TICK: Duration = Duration::from_millis(10);
/// The pause after a wait for which the kernel had no memory.
pub const WAIT_RETRY: Duration = Duration::from_millis(50);
/// The pause in accepting after descriptors or memory ran out.
pub const ACCEPT_BACK_OFF: Duration = Duration::from_millis(100);
/// The longest sleep of a loop without edge reports while the server drains, and the interval of
/// its search for overdue sessions then.
pub const DRAIN_LOOK: Duration = Duration::from_millis(50);

// ---- sums

/// `IOV_MAX` (limits.h): what one vectored call may carry.
const IOV_MAX: usize = 1024;
/// The longest turn: long from the first session on, each of its events then receives and sends
/// once more. Moving these 17.5 MiB takes about 5 ms.
const TURN_BYTES_MAX: usize =
    TURN_BYTES + SEND_BYTES + EVENTS * (RECEIVE_BYTES_LONG + SEND_BYTES_LONG);
/// Memory that an idle event loop keeps for the next turn.
const IDLE_BYTES_MAX: usize = RECEIVE_BYTES + BUFFERS * Buffers::KEEP_MAX;

const _: () = {
    assert!(TURN_BYTES_MAX <= 18 << 20);
    assert!(IDLE_BYTES_MAX <= 65 << 20);
    assert!(SEND_BYTES_LONG <= SEND_BYTES && SENDFILE_BYTES <= SEND_BYTES);
    assert!(RING_SLICES <= IOV_MAX && SEND_SLICES <= RING_SLICES);
    // A sweep of a full part costs at most a millisecond of closing, and pauses as long.
    assert!(SWEEP_CLOSES <= SWEEP_SESSIONS && SWEEP_CLOSES * 200 <= 1000);
    // A lingering peer is cut off within its time although workers look only this often.
    assert!(WAIT.as_millis() * 4 <= LINGER.as_millis());
    assert!(LINGER_DRAINED.as_millis() * 4 <= LINGER.as_millis());
};
