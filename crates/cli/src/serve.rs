//! `roundhouse serve`: a service on an engine, from the command line to the last save.

mod apache;
mod console;
mod echo;
mod game;
pub(crate) mod http;
mod library;
pub(crate) mod media;
mod probe;
mod reload;
mod rings;
mod server;
mod staff;
pub(crate) mod stock;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// The services that can be served.
#[derive(Subcommand)]
pub enum Command {
    /// The stock market: show, buy, sell over lines of text
    Stock(stock::Args),
    /// A web server: files, or the routes of a demonstration, over HTTP/1.1
    Http(Box<http::Args>),
    /// The packets of a game server's library, sent back as they came
    Echo(echo::Args),
    /// A world with a map: clients walk on paths that the server finds, and see each other
    Game(game::Args),
    /// A media streamer: transport streams, WAV, MP4 and Ogg over RTSP and RTP
    Media(Box<media::Args>),
    /// A service that walks through every door of the seam on request, watched for its laws
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
