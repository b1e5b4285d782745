//! `--config FILE`: the options of a server, from a file.
//!
//! The options of a file become words of the command line before it is parsed. So a file takes the
//! same values as flags, with the same defaults and the same errors, and a new flag needs no line
//! here. Flags on the command line win. Two formats: TOML in files named `*.toml`, and `name
//! = value` with comments ([`wire::conf`]) in all others, in any encoding. Names may be written as
//! flags (`max-connections`), with underscores or in camel case; the other names of a flag count
//! too, such as those of a published game server (`ipAddress`, `maxClient`) and of Apache
//! (`ThreadsPerChild`).
//!
//! A command takes a file if it flattens [`ConfigArg`].

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use language::Level;
use wire::conf::{self, Settings};

use crate::help;

/// The id of the flag.
const CONFIG: &str = "config";

/// The flag. Its value is read before the rest is parsed, and not again.
#[derive(clap::Args)]
pub struct ConfigArg {
    /// Read options from FILE, `name = value` a line (or TOML, if it is named *.toml); flags win
    #[arg(id = CONFIG, long = CONFIG, value_name = "FILE", help_heading = Resettable::Reset)]
    _file: Option<PathBuf>,
}

/// How similar a name must be to be suggested, from 0 to 1.
const ALIKE_MIN: f64 = 0.7;

/// Parses the command line of this process with the options of its file, and chooses the level of
/// messages; on an error it prints a message and exits, as clap does.
pub fn parse<P: CommandFactory + FromArgMatches>() -> P {
    parse_by(P::command())
}

/// [`parse`] by a grammar that says more than that of the type.
pub fn parse_by<P: FromArgMatches>(mut command: Command) -> P {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let wants_all = help::wants_all(&typed);
    let (words, file) = match expanded(&command, typed) {
        Ok(expanded) => expanded,
        Err(error) => exit(&command.error(ErrorKind::ValueValidation, format!("{error:#}"))),
    };
    command = help::shown(command, wants_all);
    if let Some(catalogue) = language::chosen() {
        command = help::spoken(command, catalogue);
    }
    let parsed = command.try_get_matches_from_mut(words);
    let parsed = parsed.inspect(|matches| {
        let is_set = |id| matches.try_get_one(id).ok().flatten().is_some_and(|it: &bool| *it);
        Level::of(is_set("quiet"), is_set("verbose")).choose();
    });
    if let Some(file) = &file {
        language::debug!("options of {}", file.display());
    }
    match parsed.and_then(|matches| P::from_arg_matches(&matches)) {
        Ok(parsed) => parsed,
        Err(error) => {
            if let Some(file) = file.filter(|_| error.use_stderr()) {
                language::eprintln!("with the options of {}:", file.display());
            }
            exit(&error)
        }
    }
}

/// Prints a help, or a mistake of the command line in the chosen language, and exits.
fn exit(error: &clap::Error) -> ! {
    if language::chosen().is_none() || !error.use_stderr() {
        error.exit();
    }
    anstream::eprint!("{}", language::tr(&error.render().to_string()));
    std::process::exit(error.exit_code());
}

/// Parses the command line `words` by `command`, with the present options of its file, and returns
/// the matches of the innermost subcommand.
///
/// # Errors
/// The file has a mistake, or the command line is wrong with its options.
pub fn again(command: Command, words: &[OsString]) -> Result<ArgMatches> {
    let (words, _) = expanded(&command, words.to_vec())?;
    // The message has many lines, for a terminal; the first one names the error.
    let wrong = |error: clap::Error| {
        let text = error.to_string();
        anyhow!("{}", text.lines().next().unwrap_or("it cannot be parsed").to_owned())
    };
    let mut leaf = command.try_get_matches_from(words).map_err(wrong)?;
    while let Some((_, next)) = leaf.remove_subcommand() {
        leaf = next;
    }
    Ok(leaf)
}

/// The words together with those of the file that they name, and the file's path.
fn expanded(
    command: &Command,
    mut words: Vec<OsString>,
) -> Result<(Vec<OsString>, Option<PathBuf>)> {
    let (leaf, start) = innermost(command, &words);
    let own = words.get(start..).unwrap_or_default();
    if leaf.get_arguments().all(|arg| arg.get_id() != CONFIG) {
        return Ok((words, None));
    }
    let Some(file) = file_of(own)? else { return Ok((words, None)) };
    let mut flags = Vec::new();
    for option in read(&file)? {
        let place = |column| format!("{}:{}:{column}", file.display(), option.line);
        let arg = named(leaf, &option.name).with_context(|| place(option.column))?;
        let name = arg.get_long().unwrap_or_default();
        if !is_given(own, name) {
            let flag = flag(arg, name, &option);
            flags.extend(flag.with_context(|| place(option.value_column))?);
        }
    }
    words.splice(start..start, flags);
    Ok((words, Some(file)))
}

/// The innermost subcommand that the words name, and the position after its name. Options that
/// every command has may stand before the name, with their values.
fn innermost<'a>(command: &'a Command, words: &[OsString]) -> (&'a Command, usize) {
    let globals: Vec<&Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).collect();
    let (mut leaf, mut start, mut next) = (command, 1, 1);
    while let Some(word) = words.get(next) {
        if let Some(inner) = leaf.find_subcommand(word) {
            (leaf, start) = (inner, next + 1);
            next = start;
            continue;
        }
        let value = globals
            .iter()
            .find_map(|arg| Some((arg, value_of(word, arg.get_long().unwrap_or_default())?)));
        let Some((arg, value)) = value else { break };
        let is_apart = arg.get_action().takes_values() && value.is_none();
        next += 1 + usize::from(is_apart);
    }
    (leaf, start)
}

/// The file that the words name by `--config FILE` or `--config=FILE`.
fn file_of(words: &[OsString]) -> Result<Option<PathBuf>> {
    let mut file = None;
    let mut rest = words.iter().take_while(|word| *word != "--");
    while let Some(word) = rest.next() {
        let found = match value_of(word, CONFIG) {
            Some(Some(value)) => value.to_owned(),
            Some(None) => match rest.next() {
                Some(value) => value.clone(),
                // The parser reports the missing value.
                None => return Ok(None),
            },
            None => continue,
        };
        if file.replace(PathBuf::from(found)).is_some() {
            bail!("expected one --config, found a second one; put both files into one");
        }
    }
    Ok(file)
}

/// Whether `word` is the flag `name`, and the value in it, if there is one.
fn value_of<'a>(word: &'a OsStr, name: &str) -> Option<Option<&'a OsStr>> {
    use std::os::unix::ffi::OsStrExt;
    let rest = word.as_bytes().strip_prefix(b"--")?.strip_prefix(name.as_bytes())?;
    match rest {
        [] => Some(None),
        [b'=', value @ ..] => Some(Some(OsStr::from_bytes(value))),
        _ => None,
    }
}

fn is_given(words: &[OsString], name: &str) -> bool {
    let mut own = words.iter().take_while(|word| *word != "--");
    own.any(|word| value_of(word, name).is_some())
}

/// An option of a file.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    name: String,
    value: String,
    line: usize,
    /// The column at which the name begins.
    column: usize,
    /// The column at which the value begins.
    value_column: usize,
    /// The value is an element of a list.
    in_list: bool,
}

fn read(file: &Path) -> Result<Vec<Choice>> {
    let bytes = sys::input::read(file, sys::input::SMALL).with_context(|| {
        format!("cannot read {}: expected a file of options `name = value`", file.display())
    })?;
    if file.extension().is_some_and(|ending| ending == "toml") {
        return from_toml(&bytes).with_context(|| file.display().to_string());
    }
    let settings = Settings::parse(&bytes).map_err(|bad| anyhow!("{}:{bad}", file.display()))?;
    let choice = |setting: &conf::Setting| Choice {
        name: setting.name.clone(),
        value: setting.value.clone(),
        line: setting.line,
        column: setting.column,
        value_column: setting.value_column,
        in_list: false,
    };
    Ok(settings.iter().map(choice).collect())
}

#[cfg(not(feature = "config"))]
fn from_toml(_bytes: &[u8]) -> Result<Vec<Choice>> {
    let why =
        "this program is built without TOML: add the feature `config`, or write `name = value`";
    Err(anyhow!(why))
}

#[cfg(feature = "config")]
fn from_toml(bytes: &[u8]) -> Result<Vec<Choice>> {
    let text = std::str::from_utf8(bytes)
        .context("expected TOML in UTF-8, found other bytes; save the file as UTF-8")?;
    let table = toml::de::DeTable::parse(text)?;
    let mut choices = Vec::new();
    for (name, value) in table.get_ref() {
        let column_of = |at: usize| 1 + text[..at].chars().rev().take_while(|c| *c != '\n').count();
        let line = 1 + text[..name.span().start].matches('\n').count();
        let (column, value_column) = (column_of(name.span().start), column_of(value.span().start));
        use toml::de::DeValue::{Array, Boolean, Float, Integer, String};
        let (values, in_list) = match value.get_ref() {
            Array(values) => (values.iter().map(|value| value.get_ref()).collect(), true),
            value => (vec![value], false),
        };
        for (place, value) in values.into_iter().enumerate() {
            let value = match value {
                String(text) => text.to_string(),
                Integer(number) => number.to_string(),
                Float(number) => number.to_string(),
                Boolean(flag) => flag.to_string(),
                // The option's own parser reads its members.
                toml::de::DeValue::Table(_) => {
                    let all: toml::Table = toml::from_str(text)?;
                    let whole = &all[name.get_ref().as_ref()];
                    serde_json::to_string(whole.get(place).unwrap_or(whole))?
                }
                _ => bail!(
                    "{line}:{column}: expected text, a number, true or false, a table, or a list \
                     of these for `{}`, found a time or a list within a list",
                    name.get_ref()
                ),
            };
            let name = name.get_ref().to_string();
            choices.push(Choice { name, value, line, column, value_column, in_list });
        }
    }
    Ok(choices)
}

/// The argument of `command` for `name` in a file.
fn named<'a>(command: &'a Command, name: &str) -> Result<&'a Arg> {
    let wanted = kebab(name);
    let options: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| arg.get_id() != CONFIG && arg.get_long().is_some() && !arg.is_hide_set())
        .collect();
    let find = |is_named: &dyn Fn(&Arg) -> bool| options.iter().copied().find(|arg| is_named(arg));
    let is_alias = |arg: &Arg, is_named: &dyn Fn(&str) -> bool| {
        arg.get_all_aliases().is_some_and(|aliases| aliases.into_iter().any(is_named))
    };
    let found = find(&|arg| arg.get_long() == Some(&wanted))
        .or_else(|| find(&|arg| is_alias(arg, &|alias| alias == wanted)))
        .or_else(|| find(&|arg| is_alias(arg, &|alias| kebab(alias) == wanted)));
    if let Some(arg) = found {
        return Ok(arg);
    }
    let likeness = |arg: &&Arg| strsim::jaro(arg.get_long().unwrap_or_default(), &wanted);
    let nearest = options.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let advice = match nearest.filter(|arg| likeness(arg) >= ALIKE_MIN) {
        Some(arg) => format!("did you mean `{}`?", arg.get_long().unwrap_or_default()),
        None => "`--help-all` lists the options".to_owned(),
    };
    bail!("expected the name of an option of `{}`, found `{name}`; {advice}", command.get_name())
}

/// `maxClients`, `max_clients` and `max-clients` in the form of flags.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && after_lower {
            kebab.push('-');
        }
        after_lower = c.is_lowercase() || c.is_numeric();
        match c {
            '_' => kebab.push('-'),
            _ => kebab.extend(c.to_lowercase()),
        }
    }
    kebab
}

/// The command-line word for an option; none for a switch that is off.
fn flag(arg: &Arg, name: &str, option: &Choice) -> Result<Option<OsString>> {
    if option.in_list && !matches!(arg.get_action(), ArgAction::Append) {
        bail!(
            "expected one value for `{}`, found a list; only repeatable options take one",
            option.name
        );
    }
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return Ok(Some(format!("--{name}={}", option.value).into()));
    }
    let on = conf::flag_of(&option.value).with_context(|| {
        format!(
            "expected `{}` to be {}, found `{}`; correct it",
            option.name,
            conf::FLAG,
            option.value
        )
    })?;
    Ok(on.then(|| format!("--{name}").into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;
    use testkit::Folder;

    fn flag(name: &'static str) -> Arg {
        Arg::new(name).long(name)
    }

    fn grammar() -> Command {
        let switch = |name| flag(name).action(ArgAction::SetTrue);
        let serve = Command::new("serve").args([
            flag("engine").default_value("auto"),
            flag("max-connections").aliases(["max-client", "maxSessions"]),
            flag("engine-flags").allow_hyphen_values(true),
            switch("verbose"),
            flag("header").action(ArgAction::Append),
            switch("hidden").hide(true),
        ]);
        let everywhere = [flag("lang"), switch("quiet")].map(|arg| arg.global(true));
        let command = Command::new("x").args(everywhere);
        command.subcommands([ConfigArg::augment_args(serve), Command::new("ask")])
    }

    /// The engine that `words` choose.
    fn engine(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> String {
        let parsed = grammar().try_get_matches_from(words);
        let parsed = parsed.unwrap_or_else(|error| panic!("{error}"));
        let serve = parsed.subcommand_matches("serve").expect("a server");
        serve.get_one::<String>("engine").expect("a default").clone()
    }

    /// The words after `typed` that result from `text` in a file called `name`.
    fn words(name: &str, text: impl AsRef<[u8]>, typed: &[&str]) -> Result<Vec<String>> {
        let (_folder, file) = Folder::with(name, text);
        let mut line: Vec<OsString> = vec!["x".into(), "serve".into(), "--config".into()];
        line.push(file.clone().into());
        line.extend(typed.iter().map(OsString::from));
        let (words, named) = expanded(&grammar(), line)?;
        assert_eq!(named, Some(file));
        let words = words[2..].iter().map(|word| word.to_string_lossy().into_owned());
        Ok(words.take_while(|word| word != "--config").collect())
    }

    fn check(name: &str, text: impl AsRef<[u8]>, typed: &[&str], expected: &[&str]) {
        let found = words(name, text, typed).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(found, expected);
    }

    fn check_refused(name: &str, text: &str, expected: &str) {
        let error = format!("{:#}", words(name, text, &[]).expect_err("refused"));
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }

    #[test]
    fn options_become_flags_in_either_format() {
        let expected = ["--engine=epoll", "--max-connections=200", "--verbose"];
        check("a.txt", "engine = epoll\nmaxClient = 200 // all\nverbose = 1", &[], &expected);
        let toml = "engine = 'epoll'\nmax_connections = 200\nverbose = true";
        check("a.toml", toml, &[], &expected);
        check("c.txt", "MaxSessions = 3", &[], &["--max-connections=3"]);
        let utf16 =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let text = "\u{feff}// \u{c11c}\u{bc84}\r\nengine = \"epoll\"\r\nMAX-CONNECTIONS = 200\r\n";
        check("b.txt", utf16(text), &[], &expected[..2]);
        check("c.conf", "verbose = off\nengineFlags = \"-all\"", &[], &["--engine-flags=-all"]);
        check("d.txt", "", &[], &[]);
        let listed = ["--header=A: b", "--header=C: d"];
        check("d.toml", "header = ['A: b', 'C: d']", &[], &listed);
        check("d.toml", "header = ['A: b']", &["--header", "X: y"], &[]);
        let tables = "[[header]]\na = 'b c'\nd = ['e', 1]\n[[header]]\nf = true";
        let objects = [r#"--header={"a":"b c","d":["e",1]}"#, r#"--header={"f":true}"#];
        check("e.toml", tables, &[], &objects);
        check("f.toml", "header = { a = 'b' }", &[], &[r#"--header={"a":"b"}"#]);
    }

    #[test]
    fn the_command_line_wins() {
        let text = "engine = epoll\nverbose = yes\nmax-connections = 7";
        check("e.txt", text, &["--engine", "uring", "--verbose"], &["--max-connections=7"]);
        check("e.txt", text, &["--max-connections=9"], &["--engine=epoll", "--verbose"]);
        assert_eq!(engine(["x", "serve", "--engine=a", "--config", "f"]), "a");
    }

    #[test]
    fn errors_have_a_place_and_advice() {
        check_refused("f.txt", "\nengin = x", ":2:1: expected the name of an option of `serve`");
        check_refused("f.txt", "engin = x", "found `engin`; did you mean `engine`?");
        check_refused("f.txt", "maxConnection = 1", "did you mean `max-connections`?");
        check_refused("f.txt", "qqq = 1", "`--help-all` lists");
        check_refused("f.txt", "config = x", "found `config`");
        check_refused("f.txt", "hidden = 1", "found `hidden`");
        check_refused("f.txt", "verbose = 2", ":1:11: expected `verbose` to be 1, true, yes, on");
        check_refused("f.txt", "engine epoll", ":1:8: expected `=` after `engine`");
        check_refused("f.toml", "engine = [1]", "1:10: expected one value for `engine`, found a");
        check_refused("f.toml", "header = [[1]]", "1:1: expected text, a number, true or false");
        check_refused("f.toml", "\nengin = 1", ":2:1: expected the name of an option");
        check_refused("f.toml", "engine = ", "TOML parse error at line 1");
        let twice = ["x", "serve", "--config", "a", "--config=b"].map(OsString::from).to_vec();
        let error = expanded(&grammar(), twice).expect_err("refused");
        assert!(error.to_string().contains("expected one --config"), "{error}");
        let none = ["x", "serve", "--config", "/nowhere/at/all"].map(OsString::from).to_vec();
        let error = expanded(&grammar(), none).expect_err("refused");
        assert!(error.to_string().contains("cannot read /nowhere/at/all"), "{error}");
    }

    #[test]
    fn a_server_may_be_a_command_of_its_own() {
        let args = [Arg::new("port"), flag("write-stall")];
        let command = ConfigArg::augment_args(Command::new("y").args(args));
        let (_folder, file) = Folder::with("alone", "writeStall = 5s");
        let words = ["y".into(), "7".into(), "--config".into(), file.clone().into()];
        let (words, _) = expanded(&command, words.into()).expect("an option");
        let matches = command.try_get_matches_from(words).expect("a server");
        let found = ["port", "write-stall"].map(|name| matches.get_one::<String>(name));
        assert_eq!(found.map(|it| it.map(String::as_str)), [Some("7"), Some("5s")]);
    }

    #[test]
    fn options_of_every_command_may_stand_before_its_name() {
        let (_folder, file) = Folder::with("a.txt", "engine = thread");
        let before: [&[&str]; 5] =
            [&[], &["--quiet"], &["--lang", "ko"], &["--lang=ko", "--quiet"], &["--lang", "serve"]];
        for typed in before {
            let mut line: Vec<OsString> = vec!["x".into()];
            line.extend(typed.iter().map(OsString::from));
            line.extend(["serve".into(), "--config".into(), file.clone().into()]);
            let (words, named) = expanded(&grammar(), line).expect("a file of options");
            assert_eq!(named, Some(file.clone()), "{typed:?}");
            assert_eq!(engine(words), "thread", "{typed:?}");
        }
    }

    #[test]
    fn only_servers_have_files() {
        let words = ["x", "ask", "--config", "a"].map(OsString::from).to_vec();
        let found = expanded(&grammar(), words.clone()).expect("nothing to read");
        assert_eq!(found, (words, None));
        assert!(grammar().try_get_matches_from(["x", "ask", "--config", "a"]).is_err());
    }

    #[test]
    fn names_as_they_are_written() {
        for (name, expected) in [
            ("maxClient", "max-client"),
            ("max_client", "max-client"),
            ("MaxClient", "max-client"),
            ("NO_DELAY", "no-delay"),
            ("port2Use", "port2-use"),
        ] {
            assert_eq!(kebab(name), expected);
        }
    }
}
