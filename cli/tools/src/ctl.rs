//! `roundhouse ctl`: asks a running server, or orders it something, in one line.

use std::process::ExitCode;

use anyhow::Result;
use language::println;

use crate::top;

/// The arguments of `ctl`.
#[derive(clap::Args)]
pub struct Args {
    /// The server: its process id, or the socket or address of its administration [default: the
    /// only server that runs]
    server: Option<String>,
    /// why (the last decisions with their reasons), status, metrics, drain, quit or reload
    /// [default: status]
    word: Option<String>,
}

/// The questions and orders that a server takes.
const WORDS: &str = "why, status, metrics, drain, quit, reload";

/// Prints the answer.
pub fn run(args: &Args) -> Result<ExitCode> {
    let is_word = |word: &&String| WORDS.split(", ").any(|it| it == *word);
    let (server, word) = match (&args.server, &args.word) {
        (Some(one), None) if is_word(&one) => (None, one.as_str()),
        (server, word) => (server.as_ref(), word.as_deref().unwrap_or("status")),
    };
    let link = top::link(server.map(String::as_str))?;
    match word {
        "status" => return top::show_once(&link),
        "why" => print!("{}", link.page("governor")?),
        "metrics" => print!("{}", link.page("metrics")?),
        "drain" | "quit" | "reload" => println!("{}", link.order(word)?),
        other => {
            let why = format!("expected one of {WORDS} after the server, found `{other}`");
            return Err(crate::usage(why));
        }
    }
    Ok(ExitCode::SUCCESS)
}
