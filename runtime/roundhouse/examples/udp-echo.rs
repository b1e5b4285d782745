//! Returns each datagram: a server for `udp-blast`.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

fn main() -> ExitCode {
    roundhouse::main(datagrams(|datagram, reply| {
        reply.put(datagram);
    }))
}
