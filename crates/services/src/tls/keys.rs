//! A server's certificate chain and private key.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The keys in use. They can be replaced; open sessions keep those they began with.
#[derive(Debug)]
pub struct Keys(RwLock<Arc<ServerConfig>>);

/// Why certificates or a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKeys(String);

impl fmt::Display for BadKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadKeys {}

impl Keys {
    /// Reads a chain of certificates, the server's own first, and its private key, both as PEM
    /// (RFC 7468); offers `protocols` by ALPN (RFC 7301), such as `http/1.1`.
    ///
    /// TLS 1.2 and 1.3. Sessions are resumed by tickets, whose key is made here. Make the keys
    /// before workers are forked, so that a client can resume on any worker.
    ///
    /// # Errors
    /// No certificate, no key, or a key that belongs to another certificate.
    pub fn read(chain: &[u8], key: &[u8], protocols: &[&str]) -> Result<Keys, BadKeys> {
        config(chain, key, protocols).map(|config| Keys(RwLock::new(config)))
    }

    /// Replaces the keys; open sessions keep the former ones.
    ///
    /// # Errors
    /// As [`Keys::read`]; the former keys then stay.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), BadKeys> {
        let former = self.config();
        let protocols: Vec<&str> = former
            .alpn_protocols
            .iter()
            .filter_map(|protocol| std::str::from_utf8(protocol).ok())
            .collect();
        let config = config(chain, key, &protocols)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config(chain: &[u8], key: &[u8], protocols: &[&str]) -> Result<Arc<ServerConfig>, BadKeys> {
    let bad = |what: &str, why: &dyn fmt::Display| BadKeys(format!("{what}: {why}"));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| bad("expected certificates as PEM", &error))?;
    if chain.is_empty() {
        return Err(BadKeys("expected a certificate as PEM, found none".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| bad("expected a private key as PEM", &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| bad("expected a key that belongs to the first certificate", &error))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config.ticketer =
        Ticketer::new().map_err(|error| bad("no key for tickets could be made", &error))?;
    Ok(Arc::new(config))
}
