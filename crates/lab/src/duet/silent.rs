//! The silent connections of one server in a duet.

use super::Silence;
use crate::idle::IdleSockets;
use crate::server::Server;

/// The number of first connections whose cost is excluded, because they also pay for memory that is
/// touched only once.
const FIRST: u32 = 100;
/// The number of descriptors that a server needs besides connections, chosen generously.
const RESERVE: u64 = 64;

/// Connections that have been answered once.
pub(super) struct Silent {
    first: IdleSockets,
    rest: IdleSockets,
}

impl Silent {
    /// Opens `count` connections, sends `greeting` on each if there is one, and measures their
    /// cost.
    pub(super) fn hush(
        server: &Server,
        count: u32,
        greeting: &str,
        busy: u32,
    ) -> Result<Silent, String> {
        let pid = server.process.id();
        allows(pid, u64::from(count) + u64::from(busy) + RESERVE)?;
        let open = |wanted: u32| {
            let mut held = IdleSockets::open(&server.address, pid, wanted);
            let seen = held.seen();
            if seen.opened < wanted {
                return Err(format!(
                    "expected {wanted} silent connections, found {}: {}",
                    seen.opened, seen.why
                ));
            }
            if !greeting.is_empty() {
                held.speak(greeting.as_bytes())?;
            }
            Ok(held)
        };
        let few = FIRST.min(count / 2);
        let (first, mut rest) = (open(few)?, open(count - few)?);
        rest.weigh(pid);
        Ok(Silent { first, rest })
    }

    /// Closes the connections; all must still be open.
    pub(super) fn end(self) -> Result<Silence, String> {
        let (first, rest) = (self.first.close(), self.rest.close());
        let (opened, kept) = (first.opened + rest.opened, first.kept + rest.kept);
        if kept < opened {
            return Err(format!("the server closed {} silent connections", opened - kept));
        }
        Ok(Silence {
            connections: opened,
            bytes_each: rest.bytes_each.ok_or("its memory cannot be read")?,
            kernel_kb: rest.kernel_kb,
        })
    }
}

/// Whether process `pid` may open `needed` descriptors. A server that may raise its own limit has
/// done so by now.
fn allows(pid: u32, needed: u64) -> Result<(), String> {
    // If the file cannot be read, the attempt will show the limit.
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let soft = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = soft.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    match soft {
        Some(soft) if soft < needed => Err(format!(
            "expected a server that may open {needed} descriptors, found a limit of {soft}: raise \
             it with `ulimit -n {needed}`, above the hard limit as root"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_named() {
        assert_eq!(allows(std::process::id(), 1), Ok(()));
        let why = allows(std::process::id(), u64::MAX).err();
        // Without a limit the message names none.
        assert!(why.is_none_or(|why| why.contains("ulimit -n")));
    }
}
