//! The settings of engines ([`Knobs::ROWS`]) as arguments of a command.

use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use engines::{Knobs, Refused, SettingRow, Shape};

/// The settings that the flags make; each flag is a row of the table.
#[derive(Clone, Debug, Default)]
pub struct KnobArgs(pub Knobs);

/// The written defaults, in the order of the rows.
static DEFAULTS: LazyLock<Vec<Option<String>>> = LazyLock::new(|| {
    let usual = Knobs::default();
    Knobs::ROWS.iter().map(|row| (row.write)(&usual).filter(|_| !row.unit.is_empty())).collect()
});

fn flag(row: &'static SettingRow<Knobs>, default: Option<&'static str>) -> Arg {
    let arg = Arg::new(row.name)
        .long(row.name)
        .aliases(row.aliases)
        .help(row.help)
        .help_heading(row.group)
        .hide_short_help(!row.is_common);
    if row.unit.is_empty() {
        return arg.action(ArgAction::SetTrue);
    }
    let checked = |text: &str| (row.set)(&mut Knobs::default(), text).map(|()| text.to_owned());
    arg.value_name(row.unit).default_value(default).value_parser(move |text: &str| checked(text))
}

impl clap::Args for KnobArgs {
    fn augment_args(command: Command) -> Command {
        let rows = Knobs::ROWS.iter().zip(DEFAULTS.iter());
        command.args(rows.map(|(row, default)| flag(row, default.as_deref())))
    }

    fn augment_args_for_update(command: Command) -> Command {
        KnobArgs::augment_args(command)
    }
}

impl FromArgMatches for KnobArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<KnobArgs, clap::Error> {
        let mut args = KnobArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for row in Knobs::ROWS {
            let text = match row.unit {
                "" => matches.get_flag(row.name).then_some("on"),
                _ => matches.get_one::<String>(row.name).map(String::as_str),
            };
            if let Some(text) = text {
                let wrong = |why| clap::Error::raw(clap::error::ErrorKind::ValueValidation, why);
                (row.set)(&mut self.0, text).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

impl KnobArgs {
    /// Puts the settings that can change while workers serve into `shape`; a flag that is not given
    /// leaves the setting as it is.
    ///
    /// # Errors
    /// They do not fit together; then `shape` is as before.
    pub fn renew(&self, shape: &mut Shape) -> Result<(), Refused> {
        let mut fresh = shape.clone();
        for (_, live) in Knobs::live() {
            (live.adopt)(&self.0, &mut fresh.knobs);
        }
        fresh.check()?;
        *shape = fresh;
        Ok(())
    }
}

/// A value of a row that is not its default.
#[cfg(test)]
pub fn other(row: &SettingRow<Knobs>) -> String {
    let values = ["9s", "7", "64", "on", "off", "damped", "100000"];
    let fits = |text: &&&str| {
        let mut knobs = Knobs::default();
        (row.set)(&mut knobs, text).is_ok() && knobs != Knobs::default()
    };
    (*values.iter().find(fits).unwrap_or_else(|| panic!("no value of {}", row.name))).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    /// The settings by this command line.
    fn parsed(words: &[String]) -> Result<Knobs, clap::Error> {
        let command = KnobArgs::augment_args(Command::new("x")).no_binary_name(true);
        KnobArgs::from_arg_matches(&command.try_get_matches_from(words)?).map(|args| args.0)
    }

    #[test]
    fn each_row_is_a_flag_under_each_of_its_names() {
        for row in Knobs::ROWS {
            let value = other(row);
            let mut expected = Knobs::default();
            (row.set)(&mut expected, &value).expect("a value");
            for name in row.aliases.iter().chain([&row.name]) {
                let word = match row.unit {
                    "" => format!("--{name}"),
                    _ => format!("--{name}={value}"),
                };
                assert_eq!(parsed(&[word]).expect("a flag"), expected, "--{name}");
            }
        }
        assert_eq!(parsed(&[]).expect("no flags"), Knobs::default());
    }

    #[test]
    fn a_wrong_value_is_refused_by_its_flag() {
        let text = |word: &str| parsed(&[word.to_owned()]).expect_err("refused").to_string();
        assert!(text("--backlog=0").contains("expected a number from 1 to 2147483647, found `0`"));
        assert!(text("--idle=never").contains("'--idle <TIME>': expected a time"));
        assert!(text("--policy=some").contains("expected one of static, apache, damped"));
    }
}
