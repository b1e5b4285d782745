//! Options that libraries of game servers have, where ours have another name or another way.

use std::io::{IsTerminal, stdin};
use std::str::FromStr;

use engines::{Refused, Shape};
use rustix::termios::tcgetpgrp;

/// What a game server's library lets one choose.
#[derive(clap::Args)]
pub struct LibraryArgs {
    /// Send what is small at once (TCP_NODELAY), on or off; off: wait until what was sent before
    /// is acknowledged (Nagle's algorithm)
    #[arg(long, default_value = "on", value_name = "on|off")]
    no_delay: Switch,
    /// Another name of --max-connections
    #[arg(long, value_name = "N", conflicts_with = "max_connections")]
    max_clients: Option<usize>,
    /// Sessions that each worker has memory ready for before the first comes (event engines)
    #[arg(long, default_value_t = 0, value_name = "N")]
    prepared: usize,
    /// Take commands as keys: d disconnects the first session, q stops the server [default: on
    /// where the server has a terminal to itself]
    #[arg(long, value_name = "on|off")]
    console: Option<Switch>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Switch(bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Switch, String> {
        match text {
            "on" | "1" | "true" | "yes" => Ok(Switch(true)),
            "off" | "0" | "false" | "no" => Ok(Switch(false)),
            _ => Err(format!("expected on or off, found `{text}`")),
        }
    }
}

impl LibraryArgs {
    /// The shape with what was said here.
    ///
    /// # Errors
    /// Where it makes no sense.
    pub fn applied(&self, mut shape: Shape) -> Result<Shape, Refused> {
        let knobs = &mut shape.knobs;
        knobs.nodelay = self.no_delay.0;
        knobs.sessions_max = self.max_clients.or(knobs.sessions_max);
        knobs.prepared = self.prepared;
        shape.check()?;
        let Some(Switch(true)) = self.console else { return Ok(shape) };
        if shape.container.is_processes() {
            return Err(Refused(
                "expected workers that are threads with --console on, found processes: who forks \
                 must have one thread; leave it out, or say --container threads"
                    .to_owned(),
            ));
        }
        Ok(shape)
    }

    /// Whether somebody is to give commands.
    pub fn is_operated(&self, shape: &Shape) -> bool {
        // Who is in the background would be stopped for reading the terminal (SIGTTIN).
        let here = || {
            let front = tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
            stdin().is_terminal() && front && !shape.container.is_processes()
        };
        self.console.map_or_else(here, |Switch(on)| on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_those_of_settings_files_too() {
        for (text, on) in [("on", true), ("1", true), ("off", false), ("0", false)] {
            assert_eq!(text.parse(), Ok(Switch(on)), "{text}");
        }
        assert!("maybe".parse::<Switch>().is_err());
    }
}
