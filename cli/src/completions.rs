//! Completions of shells, and man pages: both are made from the grammar of the command line.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use engines::{Accept, Container, PRESETS, Wait};

/// The arguments of `completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// The arguments of `man`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// The directory to write to; a page for each command
    dir: PathBuf,
}

pub fn run(args: &Args, grammar: Command) -> Result<ExitCode> {
    let script = script(args.shell, grammar);
    std::io::stdout().write_all(&script).context("cannot print the completions")?;
    Ok(ExitCode::SUCCESS)
}

pub fn write_pages(args: &ManArgs, grammar: Command) -> Result<ExitCode> {
    clap_mangen::generate_to(grammar.disable_help_subcommand(true), &args.dir)
        .with_context(|| format!("cannot write man pages to {}", args.dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell, grammar: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(&grammar), "roundhouse", &mut script);
    if shell == Shell::Fish {
        // The generator leaves out values without a flag.
        let exhibits = names("exhibits").join(" ");
        let when = "__fish_roundhouse_using_subcommand museum";
        script.extend(format!("complete -c roundhouse -n '{when}' -f -a '{exhibits}'\n").bytes());
    }
    script
}

/// The commands that are shown, with the names that their arguments take: engines, arms, exhibits.
fn visible(command: &Command) -> Command {
    let named = |arg: &Arg| match names(arg.get_id().as_str()) {
        names if names.is_empty() => arg.clone(),
        names => arg.clone().value_parser(PossibleValuesParser::new(names)),
    };
    let next = command.get_subcommands().filter(|next| !next.is_hide_set()).map(visible);
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().map(named))
        .groups(command.get_groups().cloned())
        .subcommands(next.collect::<Vec<_>>())
}

/// The names that an argument takes; none if there is no list of them. The grammar wants names that
/// last, and the process ends soon.
fn names(id: &str) -> Vec<&'static str> {
    fn words<T: ToString>(all: &[T]) -> Vec<&'static str> {
        all.iter().map(|it| &*it.to_string().leak()).collect()
    }
    let engines = PRESETS.iter().map(|preset| preset.name);
    match id {
        "engine" => engines.chain(["auto"]).collect(),
        "engines" => engines.chain(["all"]).collect(),
        "arms" | "vs" => engines.chain(peers::NAMES.iter().copied()).collect(),
        "exhibits" => museum::EXHIBITS.iter().map(|it| it.name()).chain(["all"]).collect(),
        "container" => words(Container::ALL),
        "accept" => words(Accept::ALL),
        "wait" => words(Wait::ALL),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that are shown, as the words after the program's name.
    fn commands(of: &Command, before: &str, all: &mut Vec<String>) {
        for next in of.get_subcommands().filter(|next| !next.is_hide_set()) {
            let words = format!("{before} {}", next.get_name());
            commands(next, &words, all);
            all.push(words);
        }
    }

    #[test]
    fn completions_name_every_command_and_what_it_takes() {
        let mut all = Vec::new();
        commands(&crate::grammar(), "", &mut all);
        assert!(all.len() > 30, "{all:?}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell, crate::grammar())).expect("text");
            for words in &all {
                let last = words.rsplit(' ').next().expect("a name");
                let named = script.split(|c: char| !c.is_alphanumeric() && c != '-');
                assert!(named.clone().any(|word| word == last), "{shell}: {words}");
            }
            for name in ["uring", "nginx", "think-time"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
            for hidden in ["__artefact", "'artefact:", "-a \"artefact\""] {
                assert!(!script.contains(hidden), "{shell}: hidden commands stay hidden");
            }
        }
    }

    #[test]
    fn each_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a directory");
        let args = ManArgs { dir: folder.path().to_owned() };
        write_pages(&args, crate::grammar()).expect("pages");
        let mut all = Vec::new();
        commands(&crate::grammar(), "roundhouse", &mut all);
        for words in all {
            let path = folder.path().join(words.replace(' ', "-") + ".1");
            let page = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(page.contains(".SH SYNOPSIS"), "{}", path.display());
        }
        assert!(!folder.path().join("roundhouse-man.1").exists(), "hidden commands have none");
    }
}
