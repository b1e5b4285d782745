//! The certificates and keys of a server, for TLS.

#[cfg(feature = "tls")]
mod keys;

#[cfg(not(feature = "tls"))]
use std::convert::Infallible;
use std::path::PathBuf;

#[cfg(not(feature = "tls"))]
use engines::Refused;

/// The protocols that an HTTP server offers, WebSocket included (ALPN, RFC 7301).
pub const HTTP: &[&str] = &["http/1.1"];
/// The protocols of a server that speaks HTTP/2 too, the preferred one first.
pub const HTTP2: &[&str] = &["h2", "http/1.1"];

/// The flags of a certificate.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct CertificateArgs {
    /// Speak TLS with this certificate chain (PEM, the server's own first), so https:// or with
    /// --websocket wss://; a reload reads it again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// The files of a certificate chain and its private key.
#[derive(Clone, Debug)]
pub struct KeyFiles {
    /// The names for which it is shown; none if only where no other is.
    pub names: Vec<String>,
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// All certificates of a server, the default one first.
#[derive(Clone, Debug)]
pub struct Certificates(Vec<KeyFiles>);

impl Certificates {
    /// The certificate of the flags, if there is one, and those of sites.
    pub fn new(args: &CertificateArgs, sites: impl Iterator<Item = KeyFiles>) -> Certificates {
        let pair = args.tls_cert.clone().zip(args.tls_key.clone());
        let own = pair.map(|(cert, key)| KeyFiles { names: Vec::new(), cert, key });
        Certificates(own.into_iter().chain(sites).collect())
    }
}

#[cfg(not(feature = "tls"))]
impl Certificates {
    /// No keys, if there are no certificates.
    ///
    /// # Errors
    /// There are certificates.
    pub fn keys(&self, _protocols: &[&str]) -> Result<Option<Infallible>, Refused> {
        let why = "this program is built without TLS: add the feature `tls`";
        if self.0.is_empty() { Ok(None) } else { Err(Refused(why.to_owned())) }
    }
}
