//! The keys of TLS, read from the files of the certificates, at the start and at each reload.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use ::layers::tls::{KeyPair, Keys};
use anyhow::{Context, Result};
use engines::Refused;

use super::{Certificates, KeyFiles};

impl Certificates {
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
