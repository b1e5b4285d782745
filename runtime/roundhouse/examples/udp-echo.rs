//! Returns each datagram: a server for `udp-blast`.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

fn main() -> ExitCode {
    let echo = datagrams(|datagram, reply| {
        reply.put(datagram);
    });
    echo.main()
}
