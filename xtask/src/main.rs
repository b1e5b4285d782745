//! The single entry point for development: `cargo xtask COMMAND`.
//!
//! A command is a row of [`COMMANDS`]. Continuous integration calls only `ci`, so a new check, test
//! or fuzzer needs code only in its own crate.

use std::process::ExitCode;

/// Exit code for a command line that was not understood.
const USAGE: u8 = 2;

/// A task: takes its arguments, returns nothing or the reason of its failure.
type Task = fn(&[String]) -> anyhow::Result<()>;

/// Name, arguments, description and function of each command.
const COMMANDS: &[(&str, &str, &str, Task)] = &[
    ("ci", "", "everything that must hold before a change lands", xtask::ci::run),
    ("tidy", "", "the rules of the tree: imports, sizes, dependencies, words", xtask::tidy::run),
    ("bare", "", "compile the C loops of bare/ into bare/build", xtask::bare::run),
    ("fuzz", "[smoke | NAME [SEED] [EVENTS]]", "run the fuzz registry", xtask::fuzz::run),
    ("golden", "", "instructions per request of each loop, against kept ones", xtask::golden::run),
    (
        "package",
        "static|deb|wheel|image|all [--binary PATH] [--out DIR]",
        "what people install, and checksums",
        xtask::package::run,
    ),
    (
        "pictures",
        "[--binary PATH]",
        "the pictures of README, from kept records, by chromium and ffmpeg",
        xtask::pictures::run,
    ),
    ("soak", "[NAME]", "the long tests, by name or all of them", xtask::soak::run),
    (
        "bench",
        "NAME [--out FOLDER] [--quick] [--only ARM] [--pairs N]",
        "duets: engines, idle, churn, web, ...",
        xtask::bench::run,
    ),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    let Some((_, _, _, task)) = COMMANDS.iter().find(|(known, ..)| *known == name) else {
        if !name.is_empty() && name != "help" && name != "--help" {
            eprintln!("xtask: there is no command `{name}`; expected one of these:");
        }
        for (name, arguments, what, _) in COMMANDS {
            eprintln!("  cargo xtask {:<38} {what}", format!("{name} {arguments}"));
        }
        return ExitCode::from(USAGE);
    };
    match task(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
