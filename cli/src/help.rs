//! The help of every command in the chosen language.

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// `grammar` with all its texts in the chosen language.
pub fn translated(grammar: Command) -> Command {
    match language::chosen() {
        Some(catalogue) => with(grammar, &|text| catalogue.exact(text)),
        None => grammar,
    }
}

/// `command` with each text replaced by what `find` has for it.
fn with(command: Command, find: &dyn Fn(&str) -> Option<String>) -> Command {
    type Get = fn(&Command) -> Option<&StyledStr>;
    type Set = fn(Command, String) -> Command;
    let texts: [(Get, Set); 4] = [
        (Command::get_about, |it, text| it.about(text)),
        (Command::get_long_about, |it, text| it.long_about(text)),
        (Command::get_before_help, |it, text| it.before_help(text)),
        (Command::get_after_help, |it, text| it.after_help(text)),
    ];
    let command = texts.iter().fold(command, |command, (get, set)| {
        let text = get(&command).map(ToString::to_string);
        match text.and_then(|text| find(&text).or_else(|| by_line(&text, find))) {
            Some(found) => set(command, found),
            None => command,
        }
    });
    command.mut_args(|arg| argument(arg, find)).mut_subcommands(|next| with(next, find))
}

fn argument(arg: Arg, find: &dyn Fn(&str) -> Option<String>) -> Arg {
    let found = |text: Option<&StyledStr>| text.and_then(|text| find(&text.to_string()));
    let (short, long) = (found(arg.get_help()), found(arg.get_long_help()));
    let heading = arg.get_help_heading().and_then(find);
    // Those of values are put in place when they are printed.
    arg.get_possible_values().iter().filter_map(|value| value.get_help()).for_each(|text| {
        find(&text.to_string());
    });
    let arg = if let Some(text) = short { arg.help(text) } else { arg };
    let arg = if let Some(text) = long { arg.long_help(text) } else { arg };
    // Clap keeps headings for the life of the process.
    if let Some(text) = heading { arg.help_heading(&*text.leak()) } else { arg }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// Every text of the help that a person may see.
    fn texts() -> BTreeSet<String> {
        let seen = RefCell::new(BTreeSet::new());
        with(crate::grammar(), &|text| {
            seen.borrow_mut().insert(text.to_owned());
            None
        });
        seen.into_inner()
    }

    /// Whether a text is only commands, which need no translation.
    fn is_plain(text: &str) -> bool {
        let first = text.trim_start();
        let command =
            ["roundhouse", "bin/", "Examples:"].iter().any(|word| first.starts_with(word));
        // Names are the same in every language.
        let name = ["WebSocket", "io_uring"].contains(&text);
        name || first.is_empty() || text.contains('\n') || (command && first != "Examples:")
    }

    #[test]
    fn each_text_of_the_help_is_translated() {
        let korean = language::korean();
        let missing: Vec<String> = texts()
            .into_iter()
            .filter(|text| !is_plain(text) && korean.exact(text).is_none())
            .map(|text| format!("msgid {text:?}\nmsgstr \"\"\n"))
            .collect();
        assert!(missing.is_empty(), "ko.po lacks {}:\n{}", missing.len(), missing.join("\n"));
    }

    /// The sources of all crates: blanks and line breaks folded, quotes without their escapes.
    fn sources() -> String {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let floors = ["base", "runtime", "services", "lab", "museum", "cli", "tests"];
        let mut folders = floors.map(|floor| root.join(floor)).to_vec();
        let mut all = String::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder of the sources").flatten() {
                let path = entry.path();
                let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
                if path.is_dir() {
                    folders.push(path);
                } else if ["rs", "html", "toml", "js"].contains(&ending) {
                    all += &std::fs::read_to_string(&path).unwrap_or_default();
                }
            }
        }
        all.replace("\\\n", " ")
            .replace("\\\"", "\"")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The pieces of which a text of the sources may be put together.
    const RUNS_MAX: usize = 4;

    #[test]
    fn each_translation_is_of_a_text_that_exists() {
        let (korean, texts, sources) = (language::korean(), texts(), sources());
        let by_clap = |id: &str| {
            let starts = ["error: ", "tip: ", "[", "Usage", "Print ", "Possible", "For more"];
            let parsed =
                ["digit found", "parse integer", "too large to fit", "is not in", "(os error"];
            starts.iter().any(|it| id.starts_with(it)) || parsed.iter().any(|it| id.contains(it))
        };
        // Texts are put together at run time, so a piece may be made of a few that stand apart.
        let runs = |piece: &str| {
            let (mut words, mut count) = (piece, 0);
            while !words.is_empty() {
                let has = |end: &usize| sources.contains(&words[..*end]);
                let ends = words.match_indices(' ').map(|it| it.0).take_while(has);
                // Most pieces stand as a whole in one place, which one search finds.
                let Some(end) = Some(words.len()).filter(has).or_else(|| ends.last()) else {
                    return usize::MAX;
                };
                (words, count) = (words[end..].trim_start(), count + 1);
            }
            count
        };
        let exists = |id: &str| {
            let outside = id.split('{').map(|it| it.split_once('}').map_or(it, |it| it.1));
            let mut pieces =
                outside.flat_map(|it| it.split(&['(', ')', ',', ';', ':', '.', '?', '%']));
            texts.contains(id)
                || pieces.all(|it| {
                    runs(&it.split_whitespace().collect::<Vec<_>>().join(" ")) <= RUNS_MAX
                })
        };
        let entries = korean.entries().iter().map(|it| it.id.as_str());
        let stale: Vec<&str> = entries.filter(|id| !by_clap(id) && !exists(id)).collect();
        assert!(stale.is_empty(), "no source has {}:\n{}", stale.len(), stale.join("\n"));
    }

    #[test]
    fn korean_help_is_korean_and_fits_80_columns() {
        let korean = language::korean();
        let grammar = with(crate::grammar(), &|text| korean.exact(text));
        crate::examples::tests::each(&grammar.term_width(80), &mut |command| {
            let help = command.clone().term_width(80).render_long_help().to_string();
            assert!(help.chars().any(|c| ('가'..='힣').contains(&c)), "{help}");
            for line in help.lines() {
                assert!(stats::words::columns(line) <= 80, "{}: {line}", command.get_name());
            }
        });
    }
}
