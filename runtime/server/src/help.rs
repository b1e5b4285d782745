//! The help of a command: which flags it shows, and in which language.
//!
//! A flag that few users need is declared with `hide_short_help`. `--help` leaves such flags out
//! and ends with their number; `--help-all` shows every flag. In a language other than English each
//! text is replaced in the grammar, before anything is rendered: those of the program, and those of
//! clap itself (headings, defaults, possible values), for which clap offers places in the grammar.

use clap::builder::{PossibleValue, Resettable, StyledStr};
use clap::{Arg, ArgAction, Command};
use engines::Knobs;
use language::Catalogue;

/// The flag that shows all flags.
const ALL: &str = "help-all";

/// Whether the command line asks for all flags.
pub(crate) fn wants_all(words: &[std::ffi::OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| *word == *format!("--{ALL}"))
}

/// `command` with the flags that `--help` shows, or with `all` every flag.
pub fn shown(command: Command, all: bool) -> Command {
    let command = command.mut_subcommands(|next| shown(next, all));
    let rare = command.get_arguments().filter(|arg| is_rare(arg)).count();
    if rare == 0 {
        return command;
    }
    let command = command.mut_args(|arg| match is_rare(&arg) {
        true => arg.hide_short_help(false).hide(!all),
        false => arg,
    });
    let last = match all {
        false => Some(format!("--{ALL} shows {rare} more flags")),
        true => reloadable(&command).map(|names| {
            format!("A reload (SIGHUP) changes {names}; all other flags need a restart")
        }),
    };
    let before = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
    let blank = if before.is_empty() { "" } else { "\n\n" };
    let last = last.as_deref().map(language::tr).unwrap_or_default();
    let help = language::tr("Print help with every flag").into_owned();
    let flag = Arg::new(ALL).long(ALL).action(ArgAction::Help).help(help);
    command.after_help(format!("{before}{blank}{last}")).arg(flag.help_heading(Resettable::Reset))
}

fn is_rare(arg: &Arg) -> bool {
    arg.is_hide_short_help_set() && !arg.is_hide_set()
}

/// The flags of `command` that a reload changes.
fn reloadable(command: &Command) -> Option<String> {
    let has = |name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
    let names = Knobs::live().map(|(row, _)| row.name).filter(|name| has(name));
    let names: Vec<String> = names.map(|name| format!("--{name}")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// `command` with its own texts in the chosen language.
pub fn translated(command: Command) -> Command {
    match language::chosen() {
        Some(catalogue) => with(command, &|text| catalogue.exact(text)),
        None => command,
    }
}

/// `command` with its own texts and those of clap in the language of `catalogue`. It is built, so
/// it takes no more arguments.
pub fn spoken(mut command: Command, catalogue: &Catalogue) -> Command {
    command.build();
    by_clap(with(command, &|text| catalogue.exact(text)), catalogue)
}

/// `command` with each text replaced by what `find` has for it.
pub fn with(command: Command, find: &dyn Fn(&str) -> Option<String>) -> Command {
    type Get = fn(&Command) -> Option<&StyledStr>;
    type Set = fn(Command, String) -> Command;
    let texts: [(Get, Set); 4] = [
        (Command::get_about, |command, text| command.about(text)),
        (Command::get_long_about, |command, text| command.long_about(text)),
        (Command::get_before_help, |command, text| command.before_help(text)),
        (Command::get_after_help, |command, text| command.after_help(text)),
    ];
    let command = texts.iter().fold(command, |command, (get, set)| {
        let text = get(&command).map(ToString::to_string);
        match text.and_then(|text| find(&text).or_else(|| by_line(&text, find))) {
            Some(text) => set(command, text),
            None => command,
        }
    });
    command.mut_args(|arg| argument(arg, find)).mut_subcommands(|next| with(next, find))
}

fn argument(arg: Arg, find: &dyn Fn(&str) -> Option<String>) -> Arg {
    let translation = |text: Option<&StyledStr>| text.and_then(|text| find(&text.to_string()));
    let (short, long) = (translation(arg.get_help()), translation(arg.get_long_help()));
    let heading = arg.get_help_heading().and_then(find);
    // The list of possible values is written by `by_clap`.
    arg.get_possible_values().iter().filter_map(PossibleValue::get_help).for_each(|text| {
        find(&text.to_string());
    });
    let arg = if let Some(text) = short { arg.help(text) } else { arg };
    let arg = if let Some(text) = long { arg.long_help(text) } else { arg };
    if let Some(text) = heading { headed(arg, text) } else { arg }
}

/// Clap keeps headings for the life of the process.
fn headed(arg: Arg, heading: String) -> Arg {
    arg.help_heading(&*heading.leak())
}

/// `command` with its subcommands in groups: each a heading and the names of its commands, which
/// are listed with what they do.
///
/// # Panics
/// A group names a command that does not exist.
pub fn grouped(command: Command, groups: &[(&str, &[&str])]) -> Command {
    let width = groups.iter().flat_map(|group| group.1).map(|name| name.len()).max().unwrap_or(0);
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut list = String::new();
    for (heading, names) in groups {
        let blank = if list.is_empty() { "" } else { "\n" };
        list += &format!("{blank}{}{heading}:{}\n", header.render(), header.render_reset());
        for name in *names {
            let next = command.find_subcommand(name).unwrap_or_else(|| panic!("no `{name}`"));
            let about = next.get_about().map(StyledStr::to_string).unwrap_or_default();
            let blank = " ".repeat(width - name.len());
            let name = format!("{}{name}{}{blank}", literal.render(), literal.render_reset());
            list += &format!("  {name}  {about}\n");
        }
    }
    let style = *command.get_styles().get_usage();
    let usage = format!("{}Usage:{}", style.render(), style.render_reset());
    command.before_help(list).help_template(list_template(&usage))
}

/// Whether the text before a help is the list of [`grouped`].
fn listed_before(command: &Command) -> bool {
    command.get_before_help().is_some()
}

/// A help whose list of commands stands before its options.
fn list_template(usage: &str) -> String {
    format!("{{about-with-newline}}\n{usage} {{usage}}\n\n{{before-help}}{{options}}{{after-help}}")
}

/// A text of examples: in each line the words after two spaces explain the command before them.
fn by_line(text: &str, find: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let line = |line: &str| {
        let start = line.len() - line.trim_start().len();
        let (example, words) = line.split_at(line[start..].find("  ").map_or(0, |at| start + at));
        let blanks = words.len() - words.trim_start().len();
        let words = find(words.trim()).unwrap_or_else(|| words.trim().to_owned());
        format!("{example}{}{words}", " ".repeat(blanks))
    };
    Some(text.lines().map(line).collect::<Vec<_>>().join("\n"))
}

/// The texts that clap itself adds to a help, put where the grammar has a place for them.
fn by_clap(command: Command, catalogue: &Catalogue) -> Command {
    let tr = |text: &str| catalogue.text(text).into_owned();
    let style = *command.get_styles().get_usage();
    let usage = format!("{}{}{}", style.render(), tr("Usage:"), style.render_reset());
    let template = match listed_before(&command) {
        true => list_template(&usage),
        false => {
            format!("{{about-with-newline}}\n{usage} {{usage}}\n\n{{all-args}}{{after-help}}")
        }
    };
    command
        .help_template(template)
        .subcommand_help_heading(&*tr("Commands").leak())
        .mut_args(|arg| {
            let arg = described(arg, catalogue);
            match (arg.get_help_heading(), arg.is_positional()) {
                (Some(_), _) => arg,
                (None, true) => headed(arg, tr("Arguments")),
                (None, false) => headed(arg, tr("Options")),
            }
        })
        .mut_subcommands(|next| by_clap(next, catalogue))
}

/// `arg` with its default, its aliases and its possible values in its help, as clap writes them.
fn described(arg: Arg, catalogue: &Catalogue) -> Arg {
    let tr = |text: String| catalogue.text(&text).into_owned();
    let mut facts = Vec::new();
    if arg.get_action().takes_values() && !arg.is_hide_default_value_set() {
        let values = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        let values: Vec<_> = values.collect();
        facts.extend((!values.is_empty()).then(|| tr(format!("[default: {}]", values.join(" ")))));
    }
    let short = arg.get_visible_short_aliases().unwrap_or_default().into_iter();
    let long = arg.get_visible_aliases().unwrap_or_default().into_iter();
    let aliases = short.map(|alias| format!("-{alias}")).chain(long.map(|it| format!("--{it}")));
    match &aliases.collect::<Vec<_>>()[..] {
        [] => {}
        [alias] => facts.push(tr(format!("[alias: {alias}]"))),
        aliases => facts.push(tr(format!("[aliases: {}]", aliases.join(", ")))),
    }
    let values = match arg.is_hide_possible_values_set() {
        true => Vec::new(),
        false => arg.get_possible_values(),
    };
    let values: Vec<&PossibleValue> = values.iter().filter(|value| !value.is_hide_set()).collect();
    let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    let names = tr(format!("[possible values: {}]", names.join(", ")));
    let listed = values.iter().any(|value| value.get_help().is_some()).then(|| {
        let line = |value: &&PossibleValue| match value.get_help() {
            Some(help) => format!("\n- {}: {}", value.get_name(), tr(help.to_string())),
            None => format!("\n- {}", value.get_name()),
        };
        let lines: String = values.iter().map(line).collect();
        format!("{}{lines}", tr("Possible values:".to_owned()))
    });
    if facts.is_empty() && values.is_empty() {
        return arg;
    }
    let text = |help: Option<&StyledStr>| help.map(ToString::to_string);
    let help = text(arg.get_help()).unwrap_or_default();
    let mut long = vec![text(arg.get_long_help()).unwrap_or_else(|| help.clone())];
    let mut brief = vec![help];
    brief.extend(facts.iter().cloned());
    match listed {
        Some(lines) => long.push(lines),
        None if !values.is_empty() => facts.push(names.clone()),
        None => {}
    }
    brief.extend((!values.is_empty()).then_some(names));
    long.extend((!facts.is_empty()).then(|| facts.join("\n")));
    arg.help(brief.join(" ").trim_start().to_owned())
        .long_help(long.join("\n\n"))
        .hide_default_value(true)
        .hide_possible_values(true)
}
