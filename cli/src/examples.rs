//! The examples below the help of each command. Those of `load` and `ab` stand next to their flags.

use clap::Command;

/// Lines with the words of a command, each followed by indented lines with examples.
const TEXT: &str = include_str!("examples.txt");

pub fn with_examples(grammar: Command) -> Command {
    below(grammar, "")
}

/// The same for a command, whose words after the program's name are `words`.
fn below(command: Command, words: &str) -> Command {
    let found: Vec<&str> = TEXT
        .lines()
        .skip_while(|line| *line != words)
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .collect();
    let before = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let command = match found.is_empty() || words.is_empty() {
        true => command,
        false => command.after_help(format!("{before}Examples:\n{}", found.join("\n"))),
    };
    command.mut_subcommands(|next| {
        let words = format!("{words} {}", next.get_name());
        below(next, words.trim_start())
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Calls `check` for each command that a person may use.
    pub fn each(command: &Command, check: &mut dyn FnMut(&Command)) {
        for next in command.get_subcommands().filter(|next| !next.is_hide_set()) {
            each(next, check);
            if !next.is_subcommand_required_set() {
                check(next);
            }
        }
    }

    #[test]
    fn each_command_has_three_examples_that_it_understands() {
        let grammar = crate::grammar();
        each(&grammar, &mut |command| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines = help.lines().map(str::trim).filter(|line| line.starts_with("roundhouse "));
            let lines: Vec<&str> = lines.collect();
            assert!(lines.len() >= 3, "{}: {lines:?}", command.get_name());
            for line in lines {
                // After two spaces a line explains itself; a shell takes what follows > and |.
                let line = line.split("  ").next().unwrap_or_default();
                let words = shlex::split(line).expect("words of a shell");
                let words = words.into_iter().take_while(|word| word != ">" && word != "|");
                if let Err(error) = crate::grammar().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
            }
        });
    }

    /// The commands of ours in the shell blocks of a page, each as its words.
    fn commands(page: &str) -> Vec<Vec<String>> {
        let blocks = page.split("\n```sh\n").skip(1);
        let blocks = blocks.filter_map(|rest| rest.split("\n```").next());
        let mut found = Vec::new();
        for block in blocks {
            for line in block.replace("\\\n", " ").lines() {
                let line = line.split(" #").next().unwrap_or_default();
                let words = shlex::split(line).unwrap_or_else(|| panic!("no words: {line}"));
                // Each command of a line, without the variables before it.
                let parts =
                    words.split(|word| ["|", "||", "&", "&&", ";"].contains(&word.as_str()));
                for part in parts {
                    let start = part.iter().position(|word| word.ends_with("roundhouse"));
                    let command =
                        part[start.unwrap_or(part.len())..].iter().take_while(|it| *it != ">");
                    found.push(command.cloned().collect());
                }
            }
        }
        found.retain(|words: &Vec<String>| words.len() > 1);
        found
    }

    #[test]
    fn each_command_of_the_documents_is_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut pages = vec![root.join("README.md")];
        for folder in ["docs", "docs/tutorials", "docs/ko"] {
            let all = std::fs::read_dir(root.join(folder)).expect("a folder of documents");
            pages.extend(all.flatten().map(|it| it.path()).filter(|it| it.extension().is_some()));
        }
        let mut count = 0;
        for page in pages.iter().filter(|it| it.extension().is_some_and(|it| it == "md")) {
            let text = std::fs::read_to_string(page).expect("a page");
            for words in commands(&text) {
                // The version and the help are an end with 0, which clap calls an error.
                if let Err(error) = crate::grammar().try_get_matches_from(&words)
                    && error.exit_code() != 0
                {
                    panic!("{}: {}\n{error}", page.display(), words.join(" "));
                }
                count += 1;
            }
        }
        assert!(count > 100, "{count} commands");
    }
}
