//! The commands of the course, under the names it used.
//!
//! The stock market is a classic assignment in systems programming (CSE4100 at Sogang University,
//! with the text book *Computer Systems: A Programmer's Perspective*). Its kit has three programs:
//! `stockserver PORT`, `stockclient HOST PORT`, `multiclient HOST PORT N`. Ours can replace each of
//! them: they take the same arguments, speak the same 8192-byte blocks and print the same lines.
//!
//! One binary is all three: under the name of a link (made by `roundhouse names DIR`) it is that
//! program, and each name is a subcommand too.

mod stockserver;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use tools::course::{multiclient, names, stockclient};

use server::config;

/// The commands of the course, and the one that makes links with their names.
#[derive(Subcommand)]
pub enum Command {
    /// Serve the market as the course's server does
    Stockserver(Box<stockserver::Args>),
    /// Send lines to a stock server, as the course's client does
    Stockclient(stockclient::Args),
    /// Start N clients that trade at random, as the course's do
    Multiclient(multiclient::Args),
    /// Make links with these three names to this program
    Names(names::Args),
}

impl Command {
    /// The command that this program's name selects, if it is one of the course's; parses the
    /// command line for it.
    pub fn called() -> Option<Command> {
        let program = std::env::args_os().next()?;
        Some(match name_of(&program)? {
            "stockserver" => Command::Stockserver(Box::new(config::parse())),
            "stockclient" => Command::Stockclient(config::parse()),
            _ => Command::Multiclient(config::parse()),
        })
    }

    /// The grammar of the server, if this program's name selects it.
    pub fn grammar() -> Option<clap::Command> {
        let program = std::env::args_os().next()?;
        let is_server = name_of(&program)? == "stockserver";
        is_server.then(<stockserver::Args as clap::CommandFactory>::command)
    }

    /// Whether it is a server, which must survive a closed pipe.
    pub fn is_server(&self) -> bool {
        matches!(self, Command::Stockserver(_))
    }

    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Stockserver(args) => stockserver::run(*args),
            Command::Stockclient(args) => stockclient::run(&args),
            Command::Multiclient(args) => multiclient::run(&args),
            Command::Names(args) => names::run(&args),
        }
    }
}

/// The name out of [`names::NAMES`] under which a program was called.
fn name_of(program: &OsStr) -> Option<&'static str> {
    let last = Path::new(program).file_name()?;
    names::NAMES.into_iter().find(|name| last == *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn the_last_part_of_the_path_is_the_name() {
        let check = |program: &str, name| assert_eq!(name_of(OsStr::new(program)), name);
        check("stockserver", Some("stockserver"));
        check("./bin/stockclient", Some("stockclient"));
        check("/usr/local/bin/multiclient", Some("multiclient"));
        check("roundhouse", None);
        check("stockserver2", None);
        check("stockserver/roundhouse", None);
        check("", None);
    }

    #[test]
    fn a_name_and_its_subcommand_take_the_same_words() {
        #[derive(Parser)]
        struct Cli {
            #[command(subcommand)]
            command: Command,
        }
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.command);
        assert!(matches!(parse("x stockserver 0 --engine epoll"), Ok(Command::Stockserver(_))));
        assert!(matches!(parse("x stockclient h 1"), Ok(Command::Stockclient(_))));
        assert!(matches!(parse("x multiclient h 1 9 --no-pause"), Ok(Command::Multiclient(_))));
        assert!(parse("x stockserver").is_err());
        assert!(stockserver::Args::try_parse_from(["stockserver", "70000"]).is_err());
        assert!(multiclient::Args::try_parse_from(["multiclient", "h", "1", "0"]).is_err());
    }
}
