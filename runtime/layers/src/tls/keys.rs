//! Certificate chains and private keys of a server, by the names that clients ask for.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::SiteNames;

/// The keys in use. They can be replaced; open sessions keep those they began with.
#[derive(Debug)]
pub struct Keys(RwLock<Arc<ServerConfig>>);

/// A certificate chain and its private key.
#[derive(Debug)]
pub struct KeyPair(Arc<CertifiedKey>);

/// Why certificates or a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct BadKeys(String);

impl std::error::Error for BadKeys {}

impl KeyPair {
    /// Reads a chain of certificates, the server's own first, and its private key, both as PEM
    /// (RFC 7468).
    ///
    /// # Errors
    /// No certificate, no key, or a key that belongs to another certificate.
    pub fn read(chain: &[u8], key: &[u8]) -> Result<KeyPair, BadKeys> {
        let bad = |what: &str, why: &dyn fmt::Display| BadKeys(format!("{what}: {why}"));
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| bad("expected certificates as PEM", &error))?;
        if chain.is_empty() {
            return Err(BadKeys("expected a certificate as PEM, found none".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| bad("expected a private key as PEM", &error))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map(|pair| KeyPair(Arc::new(pair)))
            .map_err(|error| bad("expected a key that belongs to the first certificate", &error))
    }
}

/// Chooses the pair for the name that a client asks for (RFC 6066 section 3).
#[derive(Debug)]
struct ByName {
    /// The place of each name's pair.
    names: SiteNames,
    /// The first is for clients that name no known site.
    pairs: Vec<KeyPair>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.names.find(name));
        let pair = self.pairs.get(named.map_or(0, |(place, _)| usize::from(place)));
        pair.map(|pair| Arc::clone(&pair.0))
    }
}

impl Keys {
    /// Keys of sites, each with its names; the first pair is also for clients that name no known
    /// site. `protocols` are offered by ALPN (RFC 7301), such as `http/1.1`.
    ///
    /// TLS 1.2 and 1.3. Sessions are resumed by tickets, whose key is made here. Make the keys
    /// before workers are forked, so that a client can resume on any worker.
    ///
    /// # Errors
    /// A name of two sites, or no randomness for the key of tickets.
    pub fn new(pairs: Vec<(Vec<String>, KeyPair)>, protocols: &[&str]) -> Result<Keys, BadKeys> {
        let protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config(pairs, protocols).map(|config| Keys(RwLock::new(config)))
    }

    /// Replaces the keys; open sessions keep the former ones.
    ///
    /// # Errors
    /// As [`Keys::new`]; the former keys then stay.
    pub fn replace(&self, pairs: Vec<(Vec<String>, KeyPair)>) -> Result<(), BadKeys> {
        let config = config(pairs, self.config().alpn_protocols.clone())?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config(
    all: Vec<(Vec<String>, KeyPair)>,
    protocols: Vec<Vec<u8>>,
) -> Result<Arc<ServerConfig>, BadKeys> {
    let (mut names, mut pairs) = (SiteNames::default(), Vec::new());
    for (place, (own, pair)) in all.into_iter().enumerate() {
        if !own.is_empty() {
            names.add(place, &own).map_err(BadKeys)?;
        }
        pairs.push(pair);
    }
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| BadKeys(format!("expected TLS 1.2 and 1.3: {error}")))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ByName { names, pairs }));
    config.alpn_protocols = protocols;
    config.ticketer = Ticketer::new()
        .map_err(|error| BadKeys(format!("no key for tickets could be made: {error}")))?;
    Ok(Arc::new(config))
}
