//! `stockclient HOST PORT`: lines from standard input to the server, replies to standard output.
//!
//! Like the course's client it shows a reply up to its first NUL and ends at the end of input.
//! Unlike that one it also ends when `exit` was answered and when the server has closed (it watches
//! both the input and the connection, so that no line is typed into a dead one). It also reports a
//! reply that is late. A reply that breaks off is an error; the rest of a buffer is never printed
//! as a reply.

use std::io::{self, BufRead, IsTerminal, StdinLock, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use sys::poll::{PollFd, poll};
use wire::framing::Framing;

use crate::course::link::{self, Link, Lost};

/// The arguments of `stockclient`.
#[derive(clap::Parser)]
#[command(
    name = "stockclient",
    version,
    max_term_width = 100,
    about = "Send lines from standard input to a stock server, like the course's client"
)]
pub struct Args {
    /// The server's name or address
    host: String,
    /// The server's port
    port: u16,
    /// How replies end: fixed:8192 (the course's), line, eof, length
    #[arg(long, default_value = "fixed:8192")]
    framing: Framing,
}

/// Sends lines until the input or the conversation ends.
pub fn run(args: &Args) -> Result<ExitCode> {
    let at = link::address_of(&args.host, args.port).map_err(crate::usage)?;
    let mut link = Link::new(link::connect(at)?, args.framing);
    let stdin = io::stdin();
    let watches = stdin.is_terminal();
    let mut lines = Lines { stdin: stdin.lock(), watches };
    let mut stdout = io::stdout().lock();
    while let Some(line) = lines.next(&mut link)? {
        let is_exit = line.trim_ascii() == b"exit";
        match link.ask(&line, &mut |waiting| eprintln!("stockclient: {waiting}")) {
            Ok(text) => stdout.write_all(&text).context("cannot print a reply")?,
            // Some servers answer `exit` by closing.
            Err(Lost::Closed(0)) if is_exit => {}
            Err(lost) => return Err(lost.into()),
        }
        stdout.flush().context("cannot print a reply")?;
        if is_exit {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of standard input.
struct Lines {
    stdin: StdinLock<'static>,
    /// Whether the wait for a line ends when the server closes; set on a terminal.
    watches: bool,
}

impl Lines {
    /// The next line, its newline included if it has one; `None` at the end.
    fn next(&mut self, link: &mut Link) -> Result<Option<Vec<u8>>> {
        if self.watches {
            let mut list = [
                PollFd::new(self.stdin.as_fd(), true, false),
                PollFd::new(link.as_fd(), true, false),
            ];
            poll(&mut list, None).context("cannot wait for a line")?;
            if !list[0].readable() && link.is_over() {
                return Err(anyhow!(Lost::Closed(0)));
            }
        }
        let mut line = Vec::new();
        self.stdin.read_until(b'\n', &mut line).context("cannot read standard input")?;
        Ok(if line.is_empty() { None } else { Some(line) })
    }
}
