//! `roundhouse serve echo`: echoes the packets of a game server library.

use std::process::ExitCode;
use std::sync::Arc;

use ::echo::{CloseReason, Echo, Options, Register};
use anyhow::{Result, anyhow};
use engines::{Assets, Handover};

use server::{ConsoleArgs, ServerArgs, ServiceInstance};
use tools::serve::tally::CloseTally;

/// The port without --port.
const PORT: u16 = 6001;

/// The flags of the echo service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("6001")))]
pub struct Args {
    #[command(flatten)]
    console: ConsoleArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.server.shape()?;
    args.console.check(&shape)?;
    let operated = args.console.is_operated(&shape);
    let handover = Handover::receive()?;
    let mut register = args.server.state::<Register>(&shape, handover.as_ref(), "register")?;
    if handover.is_none() {
        register.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    }
    let service = Arc::new(Echo::new(Options { operated, ..Options::default() }));
    let instance = ServiceInstance {
        name: "echo",
        port: PORT,
        tries: &["roundhouse load echo://{at} --for 2s"],
        service: &service,
        state: &register,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar: crate::grammar,
        facts: &[],
    };
    let mut tally = CloseTally::new(CloseReason::ALL.map(CloseReason::words), |it: &Register| {
        CloseReason::ALL.map(|why| it.closed(why))
    });
    let dismiss = || register.dismiss_first();
    args.console.run(&args.server, &shape, &instance, dismiss, &mut tally)
}
