//! `roundhouse serve`: a service on an engine, from the command line to the last save.
//!
//! Each service is a file: its flags, its state, and the call of [`::server::ServerArgs::run`],
//! which all share.

mod echo;
mod game;
mod http;
mod media;
mod probe;
pub(crate) mod stock;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// The services that can be served.
#[derive(Subcommand)]
pub enum Command {
    /// A stock market: show, buy and sell by lines of text
    Stock(stock::Args),
    /// A web server: files, or demonstration routes, over HTTP/1.1 and HTTP/2
    #[command(aliases = ["web", "files"])]
    Http(Box<http::Args>),
    /// An echo in the packets of a game server library
    Echo(echo::Args),
    /// A game world with a map: the server finds the clients' paths and shows them each other
    Game(game::Args),
    /// A media server: transport streams, WAV, MP4 and Ogg over RTSP and RTP
    Media(Box<media::Args>),
    /// A service that uses every feature of the seam on request, checked against its laws
    #[command(hide = true)]
    Probe(probe::Args),
}

/// Serves until the server is stopped.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Stock(args) => stock::run(args),
        Command::Http(args) => http::run(*args),
        Command::Echo(args) => echo::run(args),
        Command::Game(args) => game::run(args),
        Command::Media(args) => media::run(*args),
        Command::Probe(args) => probe::run(args),
    }
}
