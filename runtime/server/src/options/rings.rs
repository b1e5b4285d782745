//! The switches of `io_uring`, and the report about rings when the server is ready.

use engines::{AcceptBy, CloseBy, RecvBy, Rings, SendBy, Tactics};
use serde_json::{Value, json};
use sys::uring::{BadFlags, Flags, Setup};

/// The switches of the engines that wait by `io_uring`; each is a row of `cargo xtask bench uring`.
#[derive(clap::Args)]
#[command(next_help_heading = "io_uring")]
pub struct RingArgs {
    /// Setup flags to switch on (+) or off (-), such as -defer-taskrun,-no-sqarray; -all is none.
    /// Flags that the kernel lacks are left out and reported when the server is ready
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, default_value = "+all",
        value_parser = flags)]
    uring_flags: Flags,
    /// How to receive: ring (multishot into shared buffers), once (one receive at a time into
    /// shared buffers), own (into the connection's own buffer)
    #[arg(long, value_name = "HOW", default_value_t)]
    uring_recv: RecvBy,
    /// How to send: ring (all sends of a turn at once), call (a send(2) each)
    #[arg(long, value_name = "HOW", default_value_t)]
    uring_send: SendBy,
    /// How to accept: multi (one multishot accept), once (one accept at a time), poll (a poll, and
    /// accept(2)) [default: multi; poll where workers share a listener]
    #[arg(long, value_name = "HOW")]
    uring_accept: Option<AcceptBy>,
    /// How to close: ring (with the next turn), call (close(2))
    #[arg(long, value_name = "HOW", default_value_t)]
    uring_close: CloseBy,
    /// Entries of the submission queue
    #[arg(long, value_name = "N", default_value_t = Setup::default().entries,
        value_parser = clap::value_parser!(u32).range(1..=32768))]
    uring_entries: u32,
    /// Shared receive buffers of each ring, a power of two
    #[arg(long, value_name = "N", default_value_t = Setup::default().buffers,
        value_parser = power_of_two)]
    uring_buffers: u16,
    /// Bytes in each shared receive buffer
    #[arg(long, value_name = "BYTES", default_value_t = Setup::default().buffer_len,
        value_parser = clap::value_parser!(u32).range(16..=1 << 20))]
    uring_buffer_len: u32,
}

impl RingArgs {
    /// How rings are set up and used.
    pub fn chosen(&self) -> (Setup, Tactics) {
        let setup = Setup {
            entries: self.uring_entries,
            flags: self.uring_flags,
            buffers: self.uring_buffers,
            buffer_len: self.uring_buffer_len,
        };
        let tactics = Tactics {
            recv: self.uring_recv,
            send: self.uring_send,
            accept: self.uring_accept,
            close: self.uring_close,
        };
        (setup, tactics)
    }
}

fn flags(list: &str) -> Result<Flags, BadFlags> {
    Flags::default().switched(list)
}

fn power_of_two(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(count) if count.is_power_of_two() => Ok(count),
        _ => Err(format!("expected a power of two up to 32768, found `{text}`")),
    }
}

/// The settings of the rings for the server's line of JSON; flags that the kernel lacks are also
/// printed (stderr).
pub fn report(rings: &Rings) -> Value {
    let Rings { tactics: Tactics { recv, send, accept, close }, flags, refused } = rings;
    if !refused.is_empty() {
        language::info!("this kernel's io_uring lacks {}: serving without", refused.join(", "));
    }
    json!({
        "flags": flags,
        "refused": refused,
        "recv": recv.to_string(),
        "send": send.to_string(),
        "accept": accept.map(|how| how.to_string()),
        "close": close.to_string(),
    })
}
