//! The address of a market in a store: `etcd://HOST:PORT[,HOST:PORT...]/NAME`.

use std::str::FromStr;

const SCHEME: &str = "etcd://";

/// A market in a store.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{SCHEME}{}/{name}", hosts.join(","))]
pub struct StoreAddress {
    /// Its machines, `HOST:PORT` each; at least one.
    pub hosts: Vec<String>,
    /// The name of the market in it: letters, digits, `-` and `_`.
    pub name: String,
}

impl StoreAddress {
    /// Whether `text` begins as an address does.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with(SCHEME)
    }
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreAddress, String> {
        let read = || {
            let (hosts, name) = text.strip_prefix(SCHEME)?.split_once('/')?;
            let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
            let is_host = |host: &String| {
                let port = host.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
                    && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
            };
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_letter);
            (is_name && hosts.iter().all(is_host))
                .then(|| StoreAddress { hosts, name: name.to_owned() })
        };
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
