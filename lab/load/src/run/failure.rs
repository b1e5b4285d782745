//! The reasons why there is no report.

use crate::faults::FaultKind;
use crate::parse::Usage;
use meter::ProcError;
use rustls::{AlertDescription, InvalidMessage};
use std::io;

/// The reason why there is no report.
#[derive(Debug, derive_more::Display, derive_more::From)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Failure {
    /// The flags do not fit this server.
    #[from]
    Usage(Usage),
    /// A request before or after the run was not answered.
    #[display(
        "{target}: {doing}: expected a server that answers, found: {error}; {}",
        remedy(target, error)
    )]
    Probe { target: String, doing: &'static str, error: io::Error },
    /// The generator itself failed.
    #[display("{doing}: {error}")]
    Machinery { doing: &'static str, error: io::Error },
    /// The server's process tree cannot be read.
    #[display("--watch: {_0}")]
    Watch(ProcError),
    /// A server did not answer everything between two windows of a turn.
    #[display(
        "{target}: {outstanding} requests never came back. Does the server hang? One that serves \
         few clients at a time needs --requests-per-connection or fewer connections"
    )]
    Undrained { target: String, outstanding: u64 },
}

fn remedy(target: &str, error: &io::Error) -> String {
    match error.get_ref().and_then(|why| why.downcast_ref()) {
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            return "the server offers another version of HTTP over TLS (ALPN): HTTP/2 is asked for \
                    by --http2, HTTP/1.1 without it"
                .to_owned();
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            return "the port does not speak TLS: say http:// or the scheme without tls".to_owned();
        }
        _ => {}
    }
    use FaultKind::{Certificate, NoDescriptors, NoPorts, Proxy, Refused, Tls};
    match FaultKind::of(error) {
        Refused => {
            let service = match target.split_once("://") {
                Some(("http" | "https", _)) => "http FOLDER",
                Some((name, _)) if name.starts_with("echo") => "echo",
                _ => "stock",
            };
            format!("start one, such as `roundhouse serve {service}`, or name its port")
        }
        kind @ (NoPorts | NoDescriptors | Certificate | Tls | Proxy) => kind.remedy().to_owned(),
        _ => "is it another protocol, another --framing, or stuck?".to_owned(),
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_another_protocol_names_it() {
        let check = |error: rustls::Error, want: &str| {
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            let said = remedy("https://127.0.0.1", &error);
            assert!(said.contains(want), "{said}");
        };
        check(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol), "HTTP/2");
        check(InvalidMessage::InvalidContentType.into(), "http://");
        check(rustls::Error::DecryptError, "TLS 1.2 or 1.3");
    }

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
