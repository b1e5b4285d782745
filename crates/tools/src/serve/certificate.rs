//! The certificate and key of a web server, for TLS.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use services::tls::Keys;

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

impl CertificateArgs {
    /// The keys from the files; `None` without the flags.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn keys(&self) -> Result<Option<Keys>> {
        let Some((chain, key)) = self.files()? else { return Ok(None) };
        Keys::read(&chain, &key, PROTOCOLS).map(Some).with_context(|| self.names())
    }

    /// Reads the files again and replaces the keys; returns a report.
    pub fn renew(&self, keys: &Keys) -> String {
        let replaced = self.files().and_then(|files| match files {
            Some((chain, key)) => keys.replace(&chain, &key).with_context(|| self.names()),
            None => Ok(()),
        });
        match replaced {
            Ok(()) => "the certificates were reloaded".to_owned(),
            Err(error) => format!("the certificates are unchanged: {error:#}"),
        }
    }

    fn files(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let read = |path: &Path| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        match (&self.tls_cert, &self.tls_key) {
            (Some(chain), Some(key)) => Ok(Some((read(chain)?, read(key)?))),
            _ => Ok(None),
        }
    }

    fn names(&self) -> String {
        let name = |path: &Option<PathBuf>| {
            path.as_deref().map_or(String::new(), |path| path.display().to_string())
        };
        format!("cannot use {} with {}", name(&self.tls_cert), name(&self.tls_key))
    }
}
