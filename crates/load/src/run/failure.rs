//! The reasons why there is no report.

use crate::faults::FaultKind;
use crate::parse::Usage;
use meter::ProcError;
use std::fmt;
use std::io;

/// The reason why there is no report.
#[derive(Debug)]
pub enum Failure {
    /// The flags do not fit this server.
    Usage(Usage),
    /// A request before or after the run was not answered.
    Probe {
        /// The server.
        target: String,
        /// The failed operation.
        doing: &'static str,
        /// The reason.
        error: io::Error,
    },
    /// The generator itself failed.
    Machinery {
        /// The failed operation.
        doing: &'static str,
        /// The reason.
        error: io::Error,
    },
    /// The server's process tree cannot be read.
    Watch(ProcError),
    /// The machine was too busy to calibrate the generator; the text says why.
    Busy(String),
    /// A server did not answer everything between two windows of a turn.
    Undrained {
        /// The server.
        target: String,
        /// Requests without a reply.
        outstanding: u64,
    },
}

impl From<Usage> for Failure {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(usage) => usage.fmt(f),
            Self::Probe { target, doing, error } => {
                write!(f, "{target}: {doing}: expected a server that answers, found: {error}; ")?;
                match FaultKind::of(error) {
                    FaultKind::Refused => {
                        let service = match target.split_once("://") {
                            Some(("http" | "https", _)) => "http FOLDER",
                            Some(("echo" | "echo+tls", _)) => "echo",
                            _ => "stock",
                        };
                        write!(
                            f,
                            "start one, such as `roundhouse serve {service}`, or name its port"
                        )
                    }
                    kind @ (FaultKind::NoPorts
                    | FaultKind::NoDescriptors
                    | FaultKind::Certificate
                    | FaultKind::Tls) => f.write_str(kind.remedy()),
                    _ => f.write_str("is it another protocol, another --framing, or stuck?"),
                }
            }
            Self::Machinery { doing, error } => write!(f, "{doing}: {error}"),
            Self::Watch(error) => write!(f, "--watch: {error}"),
            Self::Busy(why) => {
                write!(f, "expected a quiet machine for a calibration, found a busy one: {why}")
            }
            Self::Undrained { target, outstanding } => write!(
                f,
                "{target}: expected every reply before the next server's turn, found \
                 {outstanding} missing; a server that serves few clients at a \
                 time needs --requests-per-connection or fewer connections"
            ),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_a_dead_port_names_the_service_of_the_scheme() {
        let check = |target: &str, want: &str| {
            let error = io::Error::from_raw_os_error(111);
            let failure = Failure::Probe { target: target.to_owned(), doing: "connect", error };
            let said = failure.to_string();
            assert!(said.contains(&format!("`roundhouse serve {want}`")), "{said}");
        };
        check("http://127.0.0.1:1/", "http FOLDER");
        check("echo://127.0.0.1:1", "echo");
        check("stock://127.0.0.1:1", "stock");
    }
}
