//! Names of sites, by which clients ask for them: in `Host`, and in TLS before that.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

/// The names of several sites, which are numbered from 0. An exact name goes before `*.` with the
/// longest rest, whatever the order.
#[derive(Debug, Clone, Default)]
pub struct SiteNames {
    /// Site and its first name by exact names, and by `.example.org` for all names that end so.
    sites: HashMap<String, (u16, Arc<str>)>,
}

impl SiteNames {
    /// Gives `site` the names: each `example.org`, an address, or `*.example.org` for every name
    /// below that one, without a port.
    ///
    /// # Errors
    /// No name, one that names no host, or one of another site.
    pub fn add(&mut self, site: usize, names: &[String]) -> Result<(), String> {
        let expected = "expected names such as example.org or *.example.org, without a port";
        let Some(first) = names.first() else { return Err(format!("{expected}, found none")) };
        let first: Arc<str> = first.as_str().into();
        for name in names {
            let bare = name.strip_prefix("*.").unwrap_or(name);
            let is_name = !bare.is_empty() && wire::http::is_host(bare.as_bytes());
            if !is_name || host_of(bare) != bare || bare.contains('*') {
                return Err(format!("{expected}, found `{name}`"));
            }
            let key = name.trim_start_matches('*').to_ascii_lowercase();
            let site = u16::try_from(site).map_err(|_| "expected at most 65,536 sites")?;
            if self.sites.insert(key, (site, Arc::clone(&first))).is_some() {
                return Err(format!("expected each name once, found `{name}` again"));
            }
        }
        Ok(())
    }

    /// The site that `host`, with or without a port, names, and its first name.
    pub fn find(&self, host: &str) -> Option<(u16, Arc<str>)> {
        let host = host_of(host).to_ascii_lowercase();
        let ends = host.match_indices('.').map(|(at, _)| &host[at..]);
        iter::once(host.as_str()).chain(ends).find_map(|name| self.sites.get(name).cloned())
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }
}

/// A host without its port and the dot at its end.
fn host_of(host: &str) -> &str {
    let end = host.rfind(':').filter(|at| !host[*at..].contains(']')).unwrap_or(host.len());
    let bare = &host[..end];
    bare.strip_suffix('.').unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_counts() {
        let mut names = SiteNames::default();
        for (site, own) in
            ["a.org *.a.org", "*.b.A.org www.a.org", "[::1] 192.0.2.7"].iter().enumerate()
        {
            let own: Vec<String> = own.split(' ').map(str::to_owned).collect();
            names.add(site, &own).expect("names");
        }
        let check = |host: &str, want: Option<(u16, &str)>| {
            let found = names.find(host);
            assert_eq!(found.as_ref().map(|(site, first)| (*site, &**first)), want, "{host}");
        };
        for host in ["a.org", "A.ORG:8080", "a.org.", "x.a.org", "x.y.a.org:1", "b.a.org"] {
            check(host, Some((0, "a.org")));
        }
        for host in ["www.a.org", "x.b.a.org", "X.Y.B.a.org.:80"] {
            check(host, Some((1, "*.b.A.org")));
        }
        check("[::1]:8080", Some((2, "[::1]")));
        check("192.0.2.7:80", Some((2, "[::1]")));
        for host in ["", "xa.org", "org", "a.org.evil", "[::2]", ":80", ".", "a.org.."] {
            check(host, None);
        }
        for bad in ["", "*", "*.", "a.org:80", "a b", "x.*.org", "**.a", "A.org", "*.a.org"] {
            let refused = names.clone().add(3, &[bad.to_owned()]);
            assert!(refused.is_err_and(|why| why.starts_with("expected ")), "{bad}");
        }
        assert!(names.add(3, &[]).is_err());
    }
}
