//! How the store lets this node in: TLS, a certificate of the client, a name and a password. All
//! come from the environment, by the names that etcdctl knows, because others can read a command
//! line.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, TlsConfig, parse_pem};

use crate::StoreAddress;

/// Certificates of authorities that sign the members' [default: the system's].
const AUTHORITY: &str = "ETCDCTL_CACERT";
/// The client's certificate, and its key.
const CERTIFICATE: &str = "ETCDCTL_CERT";
const KEY: &str = "ETCDCTL_KEY";
/// The user, `NAME` or `NAME:PASSWORD`; the password; or a file with it.
const USER: &str = "ETCDCTL_USER";
const PASSWORD: &str = "ETCDCTL_PASSWORD";
const PASSWORD_FILE: &str = "ETCDCTL_PASSWORD_FILE";

/// The credentials of a node for the store.
#[derive(Clone, Default)]
pub struct StoreAccess {
    pub(crate) tls: Option<TlsConfig>,
    /// Name and password.
    pub(crate) user: Option<(String, String)>,
}

impl fmt::Debug for StoreAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("StoreAccess").field("user", &name).finish_non_exhaustive()
    }
}

impl StoreAccess {
    /// Reads the environment, and the files that it names.
    ///
    /// # Errors
    /// In words: a variable that does not go with the address or with another one, or a file that
    /// cannot be read.
    pub fn of(address: &StoreAddress) -> Result<Arc<StoreAccess>, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        StoreAccess::read(address, variable).map(Arc::new)
    }

    /// The same with other variables than those of the environment.
    ///
    /// # Errors
    /// As [`StoreAccess::of`].
    pub fn read(
        address: &StoreAddress,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<StoreAccess, String> {
        let file = |name: &str| {
            let path = variable(name).map(PathBuf::from);
            let read = path.map(|path| {
                let bytes = std::fs::read(&path);
                bytes.map_err(|error| {
                    format!("cannot read {}, which {name} names: {error}", path.display())
                })
            });
            read.transpose()
        };
        let user = variable(USER).map(|user| match user.split_once(':') {
            Some((name, password)) => Ok((name.to_owned(), password.to_owned())),
            None => {
                let kept = file(PASSWORD_FILE)?.map(|bytes| {
                    String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned()
                });
                let password = variable(PASSWORD).or(kept);
                let password = password.ok_or_else(|| {
                    format!("expected {PASSWORD} or {PASSWORD_FILE} next to {USER}")
                })?;
                Ok::<_, String>((user, password))
            }
        });
        let user = user.transpose()?;
        let [authority, certificate, key] = [AUTHORITY, CERTIFICATE, KEY].map(file);
        let (authority, certificate, key) = (authority?, certificate?, key?);
        if !address.is_tls {
            let named = [AUTHORITY, CERTIFICATE].into_iter().find(|name| variable(name).is_some());
            return match named {
                Some(name) => {
                    Err(format!("expected etcds://…, because {name} is set; found {address}"))
                }
                None => Ok(StoreAccess { tls: None, user }),
            };
        }
        let roots: Vec<Certificate<'static>> = match &authority {
            Some(pem) => certificates(pem, AUTHORITY)?,
            None => {
                let found = rustls_native_certs::load_native_certs().certs;
                found.iter().map(|it| Certificate::from_der(it).to_owned()).collect()
            }
        };
        let client = match (certificate, key) {
            (None, None) => None,
            (Some(chain), Some(key)) => {
                let key = PrivateKey::from_pem(&key)
                    .map_err(|error| format!("expected a private key in {KEY}: {error}"))?;
                Some(ClientCert::new_with_certs(&certificates(&chain, CERTIFICATE)?, key))
            }
            _ => return Err(format!("expected {CERTIFICATE} and {KEY} together")),
        };
        let tls = TlsConfig::builder()
            .root_certs(roots.into())
            .client_cert(client)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
        Ok(StoreAccess { tls: Some(tls.build()), user })
    }
}

fn certificates(pem: &[u8], name: &str) -> Result<Vec<Certificate<'static>>, String> {
    let found = parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        return Err(format!("expected certificates as PEM in the file of {name}, found none"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_how_to_enter_and_no_message_has_the_password() {
        let check = |address: &str, set: &[(&str, &str)]| {
            let address: StoreAddress = address.parse().expect("an address");
            let value = |name: &str| set.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
            let access = StoreAccess::read(&address, value);
            assert!(!format!("{access:?}").contains("secret"), "{access:?}");
            access.map(|access| (access.tls.is_some(), access.user))
        };
        let user = |name: &str| Some((name.to_owned(), "secret".to_owned()));
        assert_eq!(check("etcd://a:1/m", &[]), Ok((false, None)));
        assert_eq!(check("etcds://a:1/m", &[]), Ok((true, None)));
        assert_eq!(check("etcd://a:1/m", &[(USER, "u:secret")]), Ok((false, user("u"))));
        let apart = [(USER, "u"), (PASSWORD, "secret")];
        assert_eq!(check("etcds://a:1/m", &apart), Ok((true, user("u"))));
        let bad = |address: &str, set: &[(&str, &str)], word: &str| {
            let why = check(address, set).expect_err(word);
            assert!(why.contains(word), "{why}");
        };
        bad("etcd://a:1/m", &[(USER, "u")], PASSWORD);
        bad("etcd://a:1/m", &[(AUTHORITY, "/dev/null")], "etcds://");
        bad("etcds://a:1/m", &[(AUTHORITY, "/dev/null")], "found none");
        bad("etcds://a:1/m", &[(CERTIFICATE, "/dev/null")], KEY);
        bad("etcds://a:1/m", &[(KEY, "/no/such/file")], "cannot read /no/such/file");
    }
}
