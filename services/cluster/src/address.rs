//! The address of a market in a store: `etcd://HOST:PORT[,HOST:PORT...]/NAME`; `etcds://` for TLS.

use std::str::FromStr;

const SCHEME: &str = "etcd://";
const TLS_SCHEME: &str = "etcds://";

/// A market in a store.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{}{}/{name}", if *is_tls { TLS_SCHEME } else { SCHEME }, hosts.join(","))]
pub struct StoreAddress {
    /// Its machines are reached by TLS.
    pub is_tls: bool,
    /// Its machines, `HOST:PORT` each; at least one.
    pub hosts: Vec<String>,
    /// The name of the market in it: letters, digits, `-` and `_`.
    pub name: String,
}

impl StoreAddress {
    /// Whether `text` begins as an address does.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with(SCHEME) || text.starts_with(TLS_SCHEME)
    }
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreAddress, String> {
        let read = || {
            let (is_tls, rest) = match text.strip_prefix(TLS_SCHEME) {
                Some(rest) => (true, rest),
                None => (false, text.strip_prefix(SCHEME)?),
            };
            let (hosts, name) = rest.split_once('/')?;
            let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
            let is_host = |host: &String| {
                let port = host.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
                    && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
            };
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_letter);
            (is_name && hosts.iter().all(is_host)).then(|| StoreAddress {
                is_tls,
                hosts,
                name: name.to_owned(),
            })
        };
        if text.contains('@') {
            return Err(
                "expected no user and no password in the address of a store, because others \
                        can read it: set ETCDCTL_USER, and ETCDCTL_PASSWORD or \
                        ETCDCTL_PASSWORD_FILE"
                    .to_owned(),
            );
        }
        read().ok_or_else(|| {
            format!(
                "expected etcd://HOST:PORT[,HOST:PORT...]/NAME, with a NAME of letters, digits, - \
                 and _; found `{text}`"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, is_good: bool) {
        let found = text.parse::<StoreAddress>();
        assert_eq!(found.is_ok(), is_good, "{text}: {found:?}");
        if let Ok(found) = found {
            assert_eq!(found.to_string(), text);
        }
    }

    #[test]
    fn addresses() {
        check("etcd://127.0.0.1:2379/market", true);
        check("etcds://a:1/m", true);
        let why = "etcd://u:secret@a:1/m".parse::<StoreAddress>().expect_err("a password");
        assert!(why.contains("ETCDCTL_USER") && !why.contains("secret"), "{why}");
        check("etcd://a:1,b:2,[::1]:3/m-1_x", true);
        for bad in ["a:1/m", "http://a:1/m", "etcd://a:1", "etcd://a:1/", "nats://a:1/m"] {
            check(bad, false);
        }
        for bad in
            ["etcd://a:1,/m", "etcd://a:99999/m", "etcd://:1/m", "etcd://a/m", "etcd://a:1/m/n", ""]
        {
            check(bad, false);
        }
    }
}
