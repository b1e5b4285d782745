//! What `SIGHUP`, and `POST /reload`, read anew: the command line, with the file that it names by
//! `--config`.
//!
//! The line is parsed again as at the start, so a file can say exactly what it could then. What has
//! changed since is compared option by option: what workers can follow is put in force, everything
//! else is named as what needs a restart. Nothing changes in silence, and a file with a mistake
//! changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::Result;
use clap::{ArgMatches, FromArgMatches};
use engines::{Reload, Shape};

use super::server::ServerArgs;
use crate::config;

/// Options that can change while workers serve.
const FOLLOWED: &[&str] =
    &["idle", "write_stall", "drain", "max_connections", "spare_min", "spare_max"];
/// Options whose value names a file that is read again, or opened again, under the same name.
const NAMED: &[&str] = &["config"];

/// The options in force, by the names of their arguments.
type Options = BTreeMap<String, Vec<OsString>>;

/// Reloads a server.
pub struct Reloader {
    options: Options,
    shape: Shape,
}

impl Reloader {
    /// Remembers what the server was started with.
    ///
    /// # Errors
    /// The command line cannot be parsed again, which is a mistake of ours.
    pub fn new(shape: &Shape) -> Result<Reloader> {
        Ok(Reloader { options: options(&config::again()?), shape: shape.clone() })
    }

    /// Reads the command line and its file, and says what has come of it.
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
        let leaf = config::again()?;
        let fresh = options(&leaf);
        let mut shape = self.shape.clone();
        ServerArgs::from_arg_matches(&leaf)?.renew(&mut shape)?;
        let mut words = Vec::new();
        for (name, now) in &fresh {
            let before = self.options.get(name).map_or(&[][..], Vec::as_slice);
            if now.as_slice() == before || NAMED.contains(&name.as_str()) {
                continue;
            }
            let (flag, now, before) = (name.replace('_', "-"), written(now), written(before));
            words.push(match FOLLOWED.contains(&name.as_str()) {
                true => format!("{flag} is {now}, was {before}"),
                false => format!(
                    "{flag} stays {before}: {now} needs a restart, or SIGUSR2 with --upgradable"
                ),
            });
        }
        // What cannot be followed is told each time, until it is as it was or the server is new.
        for (name, now) in fresh {
            if FOLLOWED.contains(&name.as_str()) {
                self.options.insert(name, now);
            }
        }
        self.shape.clone_from(&shape);
        Ok(Reload { knobs: Some(shape.knobs), words })
    }
}

/// What the arguments of a command say, and where they have a default, that.
fn options(leaf: &ArgMatches) -> Options {
    let ids = leaf.ids().map(|id| id.as_str().to_owned());
    ids.filter_map(|id| {
        // Groups have names too, and no values of their own.
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
