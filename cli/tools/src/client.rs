//! `roundhouse client [HOST:PORT]`: a conversation with a stock server, for people and for scripts.
//!
//! On a terminal it has a prompt, tables and colours, and connects again. On a pipe it has none of
//! these and copies: a line in, the reply's bytes out. The first `show` reveals how the server
//! frames its replies ([`detect`]).

pub mod detect;
pub mod link;
mod paint;
mod terminal;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use ::stock::command;
use anyhow::{Context, Result};
use engines::Refused;
use language::{eprintln, info};
use load::Target;
use load::tls::Stream;
use wire::framing::Framing;

use self::link::{Link, Lost, TrustArgs};
use self::paint::Paint;

/// The arguments of `client`.
#[derive(clap::Args)]
pub struct Args {
    /// The server; the default port is 6000; stock+tls:// before it speaks TLS, stock+ws:// and
    /// stock+wss:// speak WebSocket
    #[arg(value_name = "[SCHEME://]HOST[:PORT]", default_value = "127.0.0.1")]
    at: String,
    #[command(flatten)]
    trust: TrustArgs,
    /// How replies end: line, fixed:8192, eof, length [default: detected from the reply to `show`]
    #[arg(long)]
    framing: Option<Framing>,
    /// Send this line, print the reply and exit; may be repeated
    #[arg(long = "execute", short = 'e', value_name = "LINE")]
    lines: Vec<String>,
}

/// Sends lines until the input or the connection ends. Exit code 0 means that all lines were
/// answered.
///
/// # Errors
/// There is no server, or it closes while a script runs.
pub fn run(args: &Args) -> Result<ExitCode> {
    let at = match link::target(&args.at).and_then(|target| args.trust.apply(target)) {
        Ok(target) => target,
        Err(usage) => {
            eprintln!("roundhouse client: {usage}");
            return Ok(ExitCode::from(2));
        }
    };
    let stdin = io::stdin();
    if !args.lines.is_empty() {
        answer(&at, args.framing, &mut args.lines.join("\n").as_bytes())?;
    } else if stdin.is_terminal() && io::stdout().is_terminal() {
        terminal::run(at, args.framing)?;
    } else {
        answer(&at, args.framing, &mut stdin.lock())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects, and detects the framing if none is given. The text is the reply to `show`, if one was
/// requested for that.
fn open(at: &Target, framing: Option<Framing>) -> Result<(Link, Option<Vec<u8>>)> {
    let stream = Stream::new(link::connect(at.address)?, at);
    let mut stream = stream.map_err(|usage| Refused(usage.0))?;
    match framing {
        Some(framing) => Ok((Link::new(stream, framing), None)),
        None => {
            let (framing, book) = detect::framing(&mut stream)?;
            Ok((Link::new(stream, framing), Some(book)))
        }
    }
}

/// Answers the lines of a script.
fn answer(at: &Target, framing: Option<Framing>, lines: &mut dyn BufRead) -> Result<()> {
    let (mut link, _) = open(at, framing)?;
    let mut stdout = io::stdout().lock();
    let paint = stdout.is_terminal().then(Paint::for_terminal);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).context("cannot read the lines to send")? == 0 {
            return Ok(());
        }
        let words = line.trim_ascii();
        if words.is_empty() {
            continue;
        }
        let is_exit = words == b"exit";
        let text = match words {
            b"help" => help(),
            _ => match link.ask(&line, &mut |waiting| info!("roundhouse client: {waiting}")) {
                Ok(text) => text,
                // Some servers answer `exit` by closing, ours too in line framing.
                Err(Lost::Closed(0)) if is_exit => return Ok(()),
                Err(lost) => return Err(lost.into()),
            },
        };
        match paint {
            Some(paint) => stdout.write_all(paint.reply(&text).as_bytes()),
            None => stdout.write_all(&text),
        }
        .and_then(|()| stdout.flush())
        .context("cannot print a reply")?;
        if is_exit {
            return Ok(());
        }
    }
}

/// The list of commands. It is the client's own, because not all servers know `help`.
fn help() -> Vec<u8> {
    let mut text = Vec::new();
    command::help(&mut text);
    text
}
