//! `SIGHUP` and `POST /reload` parse the command line again, with the file that `--config` names.
//!
//! The options are compared one by one with those in force. Workers adopt those that can change
//! while they serve; the others are reported as needing a restart. Each change is reported, and a
//! file with a mistake changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::Result;
use clap::{ArgMatches, FromArgMatches};
use engines::{Reload, Shape};

use crate::config;
use crate::options::ServerArgs;

/// Options that can change while workers serve.
const ADOPTED: &[&str] =
    &["idle", "write_stall", "drain", "max_connections", "spare_min", "spare_max"];
/// Options whose value names a file that is read again; another name changes nothing else.
const FILES: &[&str] = &["config"];

/// The options in force, by the names of their arguments.
type Options = BTreeMap<String, Vec<OsString>>;

/// Reloads a server.
pub(crate) struct Reloader {
    grammar: fn() -> clap::Command,
    options: Options,
    shape: Shape,
}

impl Reloader {
    /// Remembers the options that the server was started with.
    ///
    /// # Errors
    /// The command line cannot be parsed again, which is a bug.
    pub fn new(shape: &Shape, grammar: fn() -> clap::Command) -> Result<Reloader> {
        let options = options(&config::again(grammar())?);
        Ok(Reloader { grammar, options, shape: shape.clone() })
    }

    /// Reads the command line and its file, and reports what changed.
    pub fn reload(&mut self) -> Reload {
        match self.read() {
            Ok(reload) => reload,
            Err(error) => Reload {
                knobs: None,
                words: vec![format!("the settings stay as they are: {error:#}")],
            },
        }
    }

    fn read(&mut self) -> Result<Reload> {
        let leaf = config::again((self.grammar)())?;
        let fresh = options(&leaf);
        let mut shape = self.shape.clone();
        ServerArgs::from_arg_matches(&leaf)?.renew(&mut shape)?;
        let mut words = Vec::new();
        for (name, now) in &fresh {
            let before = self.options.get(name).map_or(&[][..], Vec::as_slice);
            if now.as_slice() == before || FILES.contains(&name.as_str()) {
                continue;
            }
            let (flag, now, before) = (name.replace('_', "-"), written(now), written(before));
            words.push(match ADOPTED.contains(&name.as_str()) {
                true => format!("{flag} is {now}, was {before}"),
                false => format!(
                    "{flag} stays {before}: {now} needs a restart, or SIGUSR2 with --upgradable"
                ),
            });
        }
        // An option that needs a restart is reported at each reload until it is as it was.
        for (name, now) in fresh {
            if ADOPTED.contains(&name.as_str()) {
                self.options.insert(name, now);
            }
        }
        self.shape.clone_from(&shape);
        Ok(Reload { knobs: Some(shape.knobs), words })
    }
}

/// The values of a command's arguments, defaults included.
fn options(leaf: &ArgMatches) -> Options {
    let ids = leaf.ids().map(|id| id.as_str().to_owned());
    // Groups have ids too: the names of the types that hold their options.
    ids.filter(|id| !id.starts_with(char::is_uppercase))
        .filter_map(|id| {
            let values = leaf.try_get_raw(&id).ok()??;
            Some((id.clone(), values.map(OsString::from).collect()))
        })
        .collect()
}

fn written(values: &[OsString]) -> String {
    match values {
        [] => "unset".to_owned(),
        values => {
            let words: Vec<_> = values.iter().map(|it| it.to_string_lossy()).collect();
            words.join(" ")
        }
    }
}
