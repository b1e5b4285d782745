//! `roundhouse serve echo`: echoes the packets of a game server library.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use engines::{Assets, Handover, StateStore, say};
use services::echo::{CloseReason, Echo, Options, Register};

use server::console::Console;
use server::{LibraryArgs, ServerArgs, ServiceInstance};

/// The port without --port.
const PORT: u16 = 6001;

/// The flags of the echo service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("6001")))]
pub struct Args {
    #[command(flatten)]
    library: LibraryArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.library.applied(args.server.shape()?)?;
    let operated = args.library.is_operated(&shape);
    let handover = Handover::receive()?;
    let mut register = args.server.state::<Register>(&shape, handover.as_ref(), "register")?;
    if handover.is_none() {
        register.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    }
    let service = Echo::new(Options { operated, ..Options::default() });
    let instance = ServiceInstance {
        name: "echo",
        port: PORT,
        service: &service,
        state: &register,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar: crate::grammar,
    };
    let dismiss = || match register.dismiss_first() {
        Some(id) => format!("session {id} will be disconnected"),
        None => "no session is left to disconnect".to_owned(),
    };
    thread::scope(|scope| {
        let _console = operated.then(|| Console::open(scope, &dismiss));
        args.server.run(&shape, &instance, &mut Tally::default())
    })
}

/// Prints why connections were closed, after the last client has left and at the end.
#[derive(Default)]
struct Tally {
    printed: [u64; CloseReason::ALL.len()],
}

impl StateStore<Register> for Tally {
    fn is_changed(&mut self, register: &Register) -> bool {
        self.printed != CloseReason::ALL.map(|why| register.closed(why))
    }

    fn save(&mut self, register: &Register) -> Result<(), String> {
        for (why, printed) in CloseReason::ALL.into_iter().zip(&mut self.printed) {
            let count = register.closed(why);
            if count != *printed {
                let plural = if count == 1 { "" } else { "s" };
                say!("{count} connection{plural} {}", why.words());
                *printed = count;
            }
        }
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        None
    }
}
