//! The `roundhouse` binary: one table of commands.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0 done (also after a drain), 1 failure or
//! forced stop, 2 usage, 98 and 99 by conditions, 130 after Ctrl-C (docs/exit-codes.md).

mod artefact;
mod attach;
mod check;
mod checkup;
mod completions;
mod course;
mod duet;
mod examples;
mod far;
mod grade;
#[cfg(test)]
mod help_tests;
mod load;
mod log;
mod museum;
mod peer;
mod pin;
mod race;
mod serve;
mod tune;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use server::config;
use server::help::translated;
use tools::{architectures, ctl, demo, doctor, path, play, senders, top};

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// Write a service once, run it on every server architecture, and measure which is best, and why.
#[derive(Parser)]
#[command(name = "roundhouse", version, max_term_width = 80)]
struct Cli {
    /// Colours: auto (a terminal without NO_COLOR), always, never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = GLOBAL,
        display_order = 1000
    )]
    color: clap::ColorChoice,
    /// Language: en or ko; without it that of LC_ALL, LC_MESSAGES or LANG
    #[arg(
        id = "lang",
        long,
        global = true,
        value_name = "LANG",
        value_parser = language::LANGUAGES,
        hide_possible_values = true,
        help_heading = GLOBAL,
        display_order = 1000
    )]
    _lang: Option<String>,
    /// Print errors and results only: no progress, doubts or hints; wins over --verbose
    #[arg(id = "quiet", long, global = true, help_heading = GLOBAL, display_order = 1000)]
    _quiet: bool,
    /// Also print each step: programs started, addresses, files, choices
    #[arg(id = "verbose", long, global = true, help_heading = GLOBAL, display_order = 1000)]
    _verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Walk in the world of a game server, among players that walk by themselves
    Demo(demo::Args),
    /// Serve stock, http, echo, game or media on any engine
    #[command(subcommand)]
    Serve(Box<serve::Command>),
    /// List the architectures, and the impossible combinations
    Engines(architectures::Args),
    /// List the senders of paced media, and try them here
    Senders(senders::Args),
    /// Watch a running server: workers, rates, queue, events
    Top(top::Args),
    /// Ask a running server for its state; drain, stop, reload it
    Ctl(ctl::Args),
    /// Send requests, time and check every reply
    Load(Box<load::Args>),
    /// Race engines, or any servers: which is best, and how sure
    Race(Box<race::Args>),
    /// Compare two servers: does a request cost more on the new one?
    Ab(Box<race::ab::Args>),
    /// Check any server: cost, tail, what breaks it, in three minutes
    Checkup(Box<checkup::Args>),
    /// Choose an engine and its settings for a workload
    Tune(tune::Args),
    /// Describe the plan files of races and duets
    Plan(race::plan::SchemaArgs),
    /// Explain why some servers of a race cost more than others
    Explain(race::explain::Args),
    /// Draw the report of a race again, from its raw data
    Report(race::report::Args),
    /// Check what this machine can measure, and what to change
    Doctor(doctor::Args),
    /// Run a table of comparisons with goals, from a plan
    Duet(duet::Args),
    /// Repeat published measurements with their flaw and without it
    Museum(museum::Args),
    /// Find shortest paths on maps; compare searches in a browser
    #[command(subcommand)]
    Path(path::Command),
    /// Receive media over RTSP, and report loss and lateness
    Play(play::Args),
    /// List, verify, replay or export the orders in a market's log
    #[command(subcommand)]
    Log(log::Command),
    /// Place orders with receipts, and prove their history
    Check(check::Args),
    #[command(flatten)]
    Course(course::Command),
    /// Grade a student's stock server, with a reason per lost point
    Grade(grade::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
    /// Print the version
    #[command(hide = true)]
    Version,
    /// Write the man pages
    #[command(hide = true)]
    Man(completions::ManArgs),
    /// Serve on another runtime, for races
    #[command(hide = true)]
    Peer(peer::Args),
    /// Stand for a server that runs already, in a race
    #[command(hide = true)]
    Attach(attach::Args),
    /// Generate load for a laboratory on another machine
    #[command(hide = true)]
    Far,
    /// Run a command on given cores
    #[command(hide = true)]
    Pin(pin::Args),
    /// Run a flawed arm of the museum in its own process
    #[command(hide = true)]
    Artefact(artefact::Args),
}

/// The commands in the order in which people meet them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Compare servers", &["ab", "race", "explain", "report", "doctor"]),
    ("Check and load a server", &["checkup", "load"]),
    ("Serve", &["serve", "engines", "top", "ctl"]),
    ("Tune", &["tune"]),
    ("See and learn", &["demo", "museum", "path"]),
    ("Courses", &["grade", "stockserver", "stockclient", "multiclient", "names"]),
    ("Stock market", &["log", "check"]),
    ("Media", &["play", "senders"]),
    ("Plans and shells", &["duet", "plan", "completions"]),
];

/// The grammar of the command line, under the name by which the program was called.
pub fn grammar() -> clap::Command {
    let whole = || {
        let command = examples::with_examples(<Cli as clap::CommandFactory>::command());
        server::help::grouped(command, GROUPS)
    };
    course::Command::grammar().unwrap_or_else(whole)
}

/// Ends a command whose output cannot be written with a message: the macros of std panic there.
fn end_without_output() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        let Some(why) = text.strip_prefix("failed printing to stdout: ") else {
            return usual(panic);
        };
        language::eprintln!("roundhouse: cannot write to standard output: {why}");
        std::process::exit(1);
    }));
}

fn main() -> ExitCode {
    language::choose(std::env::args_os());
    let command = match course::Command::called() {
        Some(command) => Command::Course(command),
        None => {
            let cli = config::parse_by::<Cli>(grammar());
            tools::screen::colour(cli.color);
            cli.command
        }
    };
    let is_server = match &command {
        Command::Serve(_) | Command::Path(path::Command::Edit(_)) => true,
        Command::Course(command) => command.is_server(),
        _ => false,
    };
    if is_server {
        engines::stderr::never_wait_in_panics();
    } else {
        // A broken pipe ends a command that prints tables, but never a server.
        let _ = sys::signal::set_default(sys::signal::Signal::PIPE);
        end_without_output();
    }
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    language::debug!("roundhouse {version}, process {pid}, language {}", language::code());
    let outcome = match command {
        Command::Demo(args) => demo::run(&args),
        Command::Serve(command) => serve::run(*command),
        Command::Engines(args) => architectures::run(&args),
        Command::Senders(args) => senders::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Load(args) => load::run(*args),
        Command::Race(args) => race::run(&args),
        Command::Ab(args) => race::ab::run(&args),
        Command::Checkup(args) => checkup::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Plan(args) => race::plan::print_schema(&args),
        Command::Explain(args) => race::explain::run(&args),
        Command::Report(args) => race::report::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Duet(args) => duet::run(args),
        Command::Museum(args) => museum::run(&args),
        Command::Path(command) => path::run(command),
        Command::Play(args) => play::run(&args),
        Command::Log(command) => log::run(&command),
        Command::Check(args) => check::run(&args),
        Command::Course(command) => command.run(),
        Command::Grade(args) => grade::run(&args),
        Command::Completions(args) => completions::run(&args, translated(grammar())),
        Command::Version => {
            let _ = writeln!(std::io::stdout(), "roundhouse {version}");
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(args) => completions::write_pages(&args, translated(grammar())),
        Command::Peer(args) => peer::run(&args),
        Command::Attach(args) => attach::run(&args),
        Command::Far => far::run(),
        Command::Pin(args) => pin::run(args),
        Command::Artefact(args) => artefact::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        let causes: Vec<_> =
            error.chain().map(|why| language::tr(&why.to_string()).into_owned()).collect();
        language::eprintln!("roundhouse: {}", causes.join(": "));
        if error.is::<engines::Refused>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}
