//! The certificates and keys of a web server, for TLS.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use services::tls::{KeyPair, Keys};

/// The protocols that the server offers (ALPN, RFC 7301).
const PROTOCOLS: &[&str] = &["http/1.1"];

/// The flags of a certificate.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CertificateArgs {
    /// Serve HTTPS with this certificate chain (PEM, the server's own first); a reload reads it
    /// again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
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

    /// The keys from the files; `None` without certificates.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn keys(&self) -> Result<Option<Keys>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        Ok(Some(Keys::new(self.read()?, PROTOCOLS)?))
    }

    /// Reads the files again and replaces the keys; returns a report.
    pub fn renew(&self, keys: &Keys) -> String {
        match self.read().and_then(|pairs| Ok(keys.replace(pairs)?)) {
            Ok(()) => "the certificates were reloaded".to_owned(),
            Err(error) => format!("the certificates are unchanged: {error:#}"),
        }
    }

    fn read(&self) -> Result<Vec<(Vec<String>, KeyPair)>> {
        let read = |path: &Path| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
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
