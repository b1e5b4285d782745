//! The `roundhouse` binary: one table of commands.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0 done (a drained stop too), 1 failure or
//! forced stop, 2 usage, 99 where a
//! condition of `--fail-if` is met.

mod architectures;
mod artefact;
mod cast;
mod config;
mod course;
mod doctor;
mod duet;
mod live;
mod load;
mod museum;
mod peer;
mod pin;
mod race;
mod rank;
mod senders;
mod serve;
mod swarm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tools::{client, path, play, top, walk};

/// Write the service once, run it on every server architecture, know which one is best, and why.
#[derive(Parser)]
#[command(name = "roundhouse", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a service on an engine
    #[command(subcommand)]
    Serve(Box<serve::Command>),
    /// List the architectures, and why some cannot be
    Engines(architectures::Args),
    /// List the ways to send by the clock, tried on this machine
    Senders(senders::Args),
    /// Watch a running server: workers, rates, queue, what happened; drain or stop it by a key
    Top(top::Args),
    /// Load a server: ask, time and check every reply
    Load(Box<load::Args>),
    /// Make load for a Locust master: one of many generators, one page
    Swarm(swarm::Args),
    /// Race engines, or any servers, and say which is best and how sure that is
    Race(Box<race::Args>),
    /// Watch a race in a browser, from its raw file
    Live(live::Args),
    /// Draw the report of a race again, from its raw data
    Report(race::report::Args),
    /// Hold two runs against each other
    Compare(race::compare::Args),
    /// Say what this machine can measure, and what to change
    Doctor(doctor::Args),
    /// Compare the CPU per request of two servers, to a few percent
    Duet(duet::Args),
    /// Repeat published measurements with their flaw, and without it
    Museum(museum::Args),
    /// Find shortest paths on maps, check them, watch two searches in a browser
    #[command(subcommand)]
    Path(path::Command),
    /// Walk around in the world of a game server
    Walk(walk::Args),
    /// Send media to an address or a group over RTP, and write down how to listen (SDP)
    Cast(cast::Args),
    /// Listen to media over RTSP and RTP: what was lost, out of order and late
    Play(play::Args),
    /// Talk to a stock server: line editing, history, completion
    Client(client::Args),
    #[command(flatten)]
    Course(course::Command),
    /// Serve on another runtime, to be raced
    #[command(hide = true)]
    Peer(peer::Args),
    /// Run a command on given cores
    #[command(hide = true)]
    Pin(pin::Args),
    /// Run a flawed arm of the museum in a process of its own
    #[command(hide = true)]
    Artefact(artefact::Args),
}

/// What this program's command line can say, under the name by which it was called.
fn grammar() -> clap::Command {
    course::Command::grammar().unwrap_or_else(<Cli as clap::CommandFactory>::command)
}

fn main() -> ExitCode {
    let command = match course::Command::called() {
        Some(command) => Command::Course(command),
        None => config::parse::<Cli>().command,
    };
    let is_server = match &command {
        Command::Serve(_) | Command::Path(path::Command::Edit(_)) => true,
        Command::Course(command) => command.is_server(),
        _ => false,
    };
    if !is_server {
        // Who reads our tables may stop reading; a server must not end by that.
        let _ = sys::signal::set_default(sys::signal::Signal::PIPE);
    }
    let outcome = match command {
        Command::Serve(command) => serve::run(*command),
        Command::Engines(args) => architectures::run(&args),
        Command::Senders(args) => senders::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Load(args) => load::run(*args),
        Command::Swarm(args) => swarm::run(args),
        Command::Race(args) => race::run(*args),
        Command::Live(args) => live::run(args),
        Command::Report(args) => race::report::run(&args),
        Command::Compare(args) => race::compare::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Duet(args) => duet::run(args),
        Command::Museum(args) => museum::run(&args),
        Command::Path(command) => path::run(command),
        Command::Walk(args) => walk::run(&args),
        Command::Cast(args) => cast::run(&args),
        Command::Play(args) => play::run(&args),
        Command::Client(args) => client::run(&args),
        Command::Course(command) => command.run(),
        Command::Peer(args) => peer::run(&args),
        Command::Pin(args) => pin::run(args),
        Command::Artefact(args) => artefact::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("roundhouse: {error:#}");
        ExitCode::FAILURE
    })
}
