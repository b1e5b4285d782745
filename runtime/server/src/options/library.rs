//! Options of game server libraries that have another name or meaning here.

use std::fmt::Display;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;

use anyhow::Result;
use engines::{Refused, Shape, StateStore};
use rustix::termios::tcgetpgrp;
use seam::Service;
use wire::websocket::MessageKind;

use super::ServerArgs;
use crate::console::Console;
use crate::run::{Beside, ServiceInstance};

/// The options.
#[derive(clap::Args)]
pub struct LibraryArgs {
    /// Send small segments at once (TCP_NODELAY); off: wait until earlier ones are acknowledged
    /// (Nagle's algorithm)
    #[arg(long, default_value = "on", value_name = "on|off")]
    no_delay: Switch,
    /// Another name of --max-connections
    #[arg(long, value_name = "N", conflicts_with = "max_connections")]
    max_clients: Option<usize>,
    /// Sessions that each worker allocates at startup (event engines)
    #[arg(long, default_value_t = 0, value_name = "N")]
    prepared: usize,
    /// Take commands by keys: d disconnects the first session, q stops the server [default: on if
    /// the server is in the foreground of a terminal]
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
    /// The shape with these options.
    ///
    /// # Errors
    /// They do not fit the shape.
    pub fn applied(&self, mut shape: Shape) -> Result<Shape, Refused> {
        let knobs = &mut shape.knobs;
        knobs.nodelay = self.no_delay.0;
        knobs.sessions_max = self.max_clients.or(knobs.sessions_max);
        knobs.prepared = self.prepared;
        shape.check()?;
        let Some(Switch(true)) = self.console else { return Ok(shape) };
        if shape.container.is_processes() {
            return Err(Refused(
                "expected workers that are threads with --console on, found processes: a server \
                 that forks must have one thread; leave it out, or say --container threads"
                    .to_owned(),
            ));
        }
        Ok(shape)
    }

    /// Whether the server takes keys.
    pub fn is_operated(&self, shape: &Shape) -> bool {
        // A background process that reads the terminal is stopped (SIGTTIN).
        let here = || {
            let front = tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
            stdin().is_terminal() && front && !shape.container.is_processes()
        };
        self.console.map_or_else(here, |Switch(on)| on)
    }

    /// Serves until the server is stopped; an operator's key ends the session that `dismiss` picks.
    ///
    /// # Errors
    /// As [`ServerArgs::run_layered`]; messages over WebSocket are binary.
    pub fn run<S: Service + Send + 'static, N: Display>(
        &self,
        server: &ServerArgs,
        shape: &Shape,
        instance: &ServiceInstance<'_, Arc<S>>,
        dismiss: impl Fn() -> Option<N> + Sync,
        store: &mut dyn StateStore<S::State>,
    ) -> Result<ExitCode> {
        let dismiss = || match dismiss() {
            Some(id) => format!("session {id} will be disconnected"),
            None => "no session is left to disconnect".to_owned(),
        };
        thread::scope(|scope| {
            let _console = self.is_operated(shape).then(|| Console::open(scope, &dismiss));
            let websocket = server.websocket(MessageKind::Binary);
            server.run_layered(shape, instance, websocket, Beside::default(), store)
        })
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
