//! `--site` and the tables `[[site]]` of a file of options: several sites in one server.

use std::path::PathBuf;
use std::str::FromStr;

use ::web::{FieldRule, LifetimeRule, Origin, Redirect, Rules};
use serde::de::{Deserialize, Deserializer, Error};
use server::certificate::KeyFiles;

/// A site: `NAME[,NAME]=ROOT`, or an object with these members, which a table becomes.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteArg {
    /// The names by which clients ask for it.
    pub names: Vec<String>,
    /// Its folder.
    pub root: PathBuf,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    #[serde(default, deserialize_with = "read_all")]
    header: Vec<FieldRule>,
    #[serde(default, alias = "cache-control", deserialize_with = "read_all")]
    cache_control: Vec<LifetimeRule>,
    #[serde(default, deserialize_with = "read_all")]
    cors: Vec<Origin>,
    #[serde(default, deserialize_with = "read_all")]
    redirect: Vec<Redirect>,
    fallback: Option<String>,
}

/// The texts of a list, each by its own parser.
fn read_all<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

impl FromStr for SiteArg {
    type Err = String;

    fn from_str(text: &str) -> Result<SiteArg, String> {
        let site = match text.split_once('=') {
            _ if text.starts_with('{') => serde_json::from_str(text)
                .map_err(|error| format!("expected a table with names and root: {error}"))?,
            Some((names, root)) => SiteArg {
                names: names.split(',').map(str::to_owned).collect(),
                root: root.into(),
                ..SiteArg::default()
            },
            None => {
                return Err(format!("expected NAME=ROOT, such as a.org=/srv/a, found `{text}`"));
            }
        };
        match (&site.cert, &site.key) {
            (Some(_), None) | (None, Some(_)) => {
                Err("expected `cert` and `key` together, found one of them".to_owned())
            }
            _ => Ok(site),
        }
    }
}

impl SiteArg {
    /// Its certificate, if it differs from the server's.
    pub fn key_files(&self) -> Option<KeyFiles> {
        let (cert, key) = self.cert.clone().zip(self.key.clone())?;
        Some(KeyFiles { names: self.names.clone(), cert, key })
    }

    /// Its rules: of each kind those of the server, unless it has its own.
    pub fn rules(&self, all: &Rules) -> Rules {
        fn own<T: Clone>(own: &[T], all: &[T]) -> Vec<T> {
            if own.is_empty() { all.to_vec() } else { own.to_vec() }
        }
        Rules {
            fields: own(&self.header, &all.fields),
            lifetimes: own(&self.cache_control, &all.lifetimes),
            origins: own(&self.cors, &all.origins),
            redirects: own(&self.redirect, &all.redirects),
            fallback: self.fallback.clone().or_else(|| all.fallback.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_a_pair_or_a_table() {
        let site: SiteArg = "a.org,*.a.org=/srv/a=b".parse().expect("a pair");
        assert_eq!((site.names.len(), site.root), (2, PathBuf::from("/srv/a=b")));
        let text = r#"{"names": ["a"], "root": "r", "redirect": ["/x=/y"], "fallback": "/z"}"#;
        let site: SiteArg = text.parse().expect("a table");
        let all = Rules { origins: vec!["*".parse().expect("all")], ..Rules::default() };
        let rules = site.rules(&all);
        assert_eq!((rules.origins, rules.redirects.len()), (all.origins, 1));
        assert_eq!(rules.fallback.as_deref(), Some("/z"));
        for (text, wanted) in [
            ("a.org", "expected NAME=ROOT"),
            ("{}", "missing field `names`"),
            (r#"{"names": ["a"], "root": "r", "rot": 1}"#, "unknown field `rot`, expected one of"),
            (r#"{"names": ["a"], "root": "r", "cert": "c"}"#, "`cert` and `key` together"),
            (r#"{"names": ["a"], "root": "r", "cors": ["a.org"]}"#, "expected * or an origin"),
        ] {
            let why = text.parse::<SiteArg>().expect_err(text);
            assert!(why.contains(wanted), "{text}: {why}");
        }
    }
}
