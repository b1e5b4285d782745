//! The flags of a stress client.

use super::flags::{Args, EchoArgs, WindowArg};
use ::load::drive::StressOptions;
use ::load::model::Model;
use ::load::parse::Scheme;
use ::load::work::Think;
use ::load::{Target, Usage};
use std::time::Duration;

/// The shortest life of a connection.
const RECONNECT_MIN: Duration = Duration::from_millis(1);
/// The length of a turn's window.
const TURN_WINDOW: Duration = Duration::from_millis(40);

impl Args {
    /// The window and options of a stress client, if requested.
    pub(super) fn stress(&self, target: &Target) -> Result<Option<(u32, StressOptions)>, Usage> {
        let packets = match (self.echo.in_flight, self.echo.window) {
            (Some(packets), None) | (None, Some(WindowArg::Packets(packets))) => packets,
            (None, None) if self.echo.reconnect.or(self.echo.send_delay).is_some() => {
                return Err(Usage(
                    "expected --in-flight with --send-delay and --reconnect, found none".to_owned(),
                ));
            }
            (None, None) => return Ok(None),
            (_, Some(_)) => {
                return Err(Usage(
                    "expected --in-flight N for the packets of a connection, found --window; a \
                     window is a time of --turns"
                        .to_owned(),
                ));
            }
        };
        if target.scheme != Scheme::Echo {
            return Err(Usage(format!("expected --in-flight with echo://, found {target}")));
        }
        if let Some(renew) = self.echo.reconnect.filter(|&renew| renew < RECONNECT_MIN) {
            return Err(Usage(format!(
                "expected --reconnect of {RECONNECT_MIN:?} or more, found {renew:?}"
            )));
        }
        Ok(Some((packets, StressOptions { renew: self.echo.reconnect })))
    }

    /// The model: a closed loop in which each user has a window.
    pub(super) fn stress_model(&self, window: u32) -> Result<Model, Usage> {
        let flags = &self.model;
        let scheduled = flags.open.is_some() || flags.sessions.is_some();
        if scheduled || flags.depth != 1 || flags.think != Think::None {
            return Err(Usage(
                "expected --in-flight without --open, --sessions, --depth and --think, found one \
                 of them; the pause between two sends is --send-delay"
                    .to_owned(),
            ));
        }
        let pause = self.echo.send_delay.filter(|pause| !pause.is_zero());
        let think = pause.map_or(Think::None, Think::Fixed);
        Ok(Model::Closed { depth: window, think, ramp: flags.ramp })
    }
}

impl EchoArgs {
    /// The length of a turn's window.
    pub(super) fn turn_window(&self) -> Result<Duration, Usage> {
        match self.window {
            None => Ok(TURN_WINDOW),
            Some(WindowArg::Span(span)) => Ok(span),
            Some(WindowArg::Packets(found)) => Err(Usage(format!(
                "expected a time for --window of turns, such as 40ms, found {found}"
            ))),
        }
    }
}
