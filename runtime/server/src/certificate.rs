//! The certificates and keys of a server, for TLS.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ::layers::tls::{KeyPair, Keys};
use anyhow::{Context, Result};
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
    tls_cert: Option<PathBuf>,
    /// The private key of the server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl CertificateArgs {
    /// As the flags with these files say.
    pub fn new(cert: PathBuf, key: PathBuf) -> CertificateArgs {
        CertificateArgs { tls_cert: Some(cert), tls_key: Some(key) }
    }

    /// Whether there is a certificate.
    pub fn is_set(&self) -> bool {
        self.tls_cert.is_some()
    }
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

    /// The keys from the files, for a server that offers `protocols`; `None` without certificates.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn keys(&self, protocols: &[&str]) -> Result<Option<Keys>, Refused> {
        let make = || Ok(Keys::new(self.read()?, protocols)?);
        let keys = (!self.0.is_empty()).then(make).transpose();
        keys.map_err(|error: anyhow::Error| Refused(format!("{error:#}")))
    }

    /// The function that a worker calls at a reload: it replaces `keys`. Threads share them, so
    /// only the first of them reads the files.
    pub fn renewal(&self, keys: &Keys) -> impl Fn(u32) -> Option<String> + Sync {
        let latest = AtomicU32::new(0);
        move |edition| {
            (latest.swap(edition, Ordering::Relaxed) != edition).then(|| self.renew(keys))
        }
    }

    /// Reads the files again and replaces the keys; returns a report.
    fn renew(&self, keys: &Keys) -> String {
        match self.read().and_then(|pairs| Ok(keys.replace(pairs)?)) {
            Ok(()) => "the certificates were reloaded".to_owned(),
            Err(error) => format!("the certificates are unchanged: {error:#}"),
        }
    }

    fn read(&self) -> Result<Vec<(Vec<String>, KeyPair)>> {
        let read = |path: &Path| {
            sys::input::read(path, sys::input::SMALL)
                .with_context(|| format!("cannot read {}", path.display()))
        };
        let pair = |files: &KeyFiles| {
            let KeyFiles { names, cert, key } = files;
            let pair = KeyPair::read(&read(cert)?, &read(key)?)
                .with_context(|| format!("cannot use {} with {}", cert.display(), key.display()))?;
            Ok((names.clone(), pair))
        };
        self.0.iter().map(pair).collect()
    }
}
