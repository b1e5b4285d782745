//! `--console`: an operator's keys, for services whose sessions an operator may end.

use std::fmt::Display;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use anyhow::Result;
use engines::{Refused, Shape, StateStore};
use rustix::termios::tcgetpgrp;
use seam::Service;
use wire::conf::flag_of;
use wire::websocket::MessageKind;

use super::ServerArgs;
use crate::console::Console;
use crate::run::{Beside, ServiceInstance};

/// The flag of the console.
#[derive(clap::Args)]
pub struct ConsoleArgs {
    /// Take commands by keys: d disconnects the first session, q stops the server [default: on if
    /// the server is in the foreground of a terminal]
    #[arg(long, value_name = "on|off", value_parser = switch, hide_short_help = true)]
    console: Option<bool>,
}

fn switch(text: &str) -> Result<bool, String> {
    flag_of(text).ok_or_else(|| format!("expected on or off, found `{text}`"))
}

impl ConsoleArgs {
    /// Checks that a server of `shape` can take keys, if the flag says so.
    ///
    /// # Errors
    /// Its workers are processes.
    pub fn check(&self, shape: &Shape) -> Result<(), Refused> {
        if self.console != Some(true) || !shape.container.is_processes() {
            return Ok(());
        }
        Err(Refused(
            "expected workers that are threads with --console on, found processes: a server that \
             forks must have one thread; leave it out, or say --container threads"
                .to_owned(),
        ))
    }

    /// Whether the server takes keys.
    pub fn is_operated(&self, shape: &Shape) -> bool {
        // A background process that reads the terminal is stopped (SIGTTIN).
        let here = || {
            let front = tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
            stdin().is_terminal() && front && !shape.container.is_processes()
        };
        self.console.unwrap_or_else(here)
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
