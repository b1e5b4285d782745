//! `SIGHUP` and `POST /reload` parse the command line again, with the file that `--config` names.
//!
//! The options are compared one by one with those in force. Workers adopt those that can change
//! while they serve; the others are reported as needing a restart. Each change is reported, and a
//! file with a mistake changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::Result;
use clap::{ArgMatches, FromArgMatches};
use engines::{Knobs, Reload, Shape};

use crate::config;
use crate::options::KnobArgs;

/// Options whose value names a file that is read again; another name changes nothing else.
const FILES: &[&str] = &["config"];

/// The options in force, by the names of their arguments.
type Options = BTreeMap<String, Vec<OsString>>;

pub(crate) struct Reloader {
    grammar: fn() -> clap::Command,
    words: Vec<OsString>,
    options: Options,
    shape: Shape,
}

impl Reloader {
    /// Remembers the options that the server was started with, by the command line `words`.
    ///
    /// # Errors
    /// The command line cannot be parsed again, which is a bug.
    pub fn new(
        shape: &Shape,
        grammar: fn() -> clap::Command,
        words: Vec<OsString>,
    ) -> Result<Reloader> {
        let options = options(&config::again(grammar(), &words)?);
        Ok(Reloader { grammar, words, options, shape: shape.clone() })
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
        let leaf = config::again((self.grammar)(), &self.words)?;
        let fresh = options(&leaf);
        let mut shape = self.shape.clone();
        KnobArgs::from_arg_matches(&leaf)?.renew(&mut shape)?;
        let is_live = |name: &str| Knobs::live().any(|(row, _)| row.name == name);
        let mut words = Vec::new();
        for (name, now) in &fresh {
            let before = self.options.get(name).map_or(&[][..], Vec::as_slice);
            if now.as_slice() == before || FILES.contains(&name.as_str()) {
                continue;
            }
            let (flag, now, before) = (name.replace('_', "-"), written(now), written(before));
            words.push(match is_live(&flag) {
                true => format!("{flag} is {now}, was {before}"),
                false => format!(
                    "{flag} stays {before}: {now} needs a restart, or SIGUSR2 with --upgradable"
                ),
            });
        }
        // An option that needs a restart is reported at each reload until it is as it was.
        for (name, now) in fresh {
            if is_live(&name) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ServerArgs, other};
    use clap::{Args, Command};
    use testkit::Folder;

    fn grammar() -> Command {
        ServerArgs::augment_args(Command::new("x"))
    }

    /// The file of `row` with a value that is not its default: in a reload it takes effect, or is
    /// refused with the reason.
    #[test]
    fn each_row_is_a_key_that_a_reload_adopts_or_refuses_by_name() {
        // Where processes come and go every reloadable setting has an effect.
        let start = ["x", "--engine=worker", "--config"].map(OsString::from);
        for row in Knobs::ROWS {
            let (folder, file) = Folder::with("server.toml", "");
            let words = [&start[..], &[file.clone().into_os_string()]].concat();
            let leaf = config::again(grammar(), &words).expect("an empty file");
            let shape = ServerArgs::from_arg_matches(&leaf).expect("flags").shape();
            let shape = shape.expect("a shape");
            let mut reloader = Reloader::new(&shape, grammar, words).expect("parsed before");
            let value = match row.name {
                // The band of spare workers must hold a whole process.
                "spare-max" => "400".to_owned(),
                "max-connections" => "900".to_owned(),
                _ => other(row),
            };
            folder.file("server.toml", format!("{} = '{value}'", row.name.replace('-', "_")));
            let Reload { knobs, words } = reloader.reload();
            let knobs = knobs.unwrap_or_else(|| panic!("{}: {words:?}", row.name));
            let (now, before) = ((row.write)(&knobs), (row.write)(&shape.knobs));
            let [said] = &words[..] else { panic!("{}: {words:?}", row.name) };
            if row.live.is_some() {
                assert_eq!(now.as_ref(), Some(&value), "{}", row.name);
                assert!(said.starts_with(&format!("{} is {value}, was ", row.name)), "{said}");
            } else {
                assert_eq!(now, before, "{}", row.name);
                assert!(said.starts_with(&format!("{} stays ", row.name)), "{said}");
                assert!(said.ends_with("needs a restart, or SIGUSR2 with --upgradable"), "{said}");
            }
        }
    }
}
