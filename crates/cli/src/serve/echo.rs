//! `roundhouse serve echo`: echoes the packets of a game server library.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engines::{Assets, Handover, StateStore};
use memory::Region;
use services::echo::{CloseReason, Echo, Options, Register};

use super::console::Console;
use super::library::LibraryArgs;
use super::server::{ServerArgs, ServiceInstance, usage};

/// The default port.
const PORT: u16 = 6001;

/// The flags of the echo service.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    library: LibraryArgs,
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.server.shape().and_then(|shape| args.library.applied(shape));
    let shape = match shape {
        Ok(shape) => shape,
        Err(refused) => return Ok(usage(&refused.to_string())),
    };
    let operated = args.library.is_operated(&shape);
    let handover = Handover::receive()?;
    let mut register: Region<Register> = match &handover {
        Some(handover) => Region::adopt(handover.state()?).map_err(|refused| {
            anyhow!("cannot take the register over: {refused}; the previous server continues")
        })?,
        None => Region::place(args.server.placement(&shape))
            .context("cannot place the register in memory")?,
    };
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
    };
    let dismiss = || match register.dismiss_first() {
        Some(id) => format!("session {id} is being disconnected"),
        None => "no session is left to disconnect".to_owned(),
    };
    thread::scope(|scope| {
        let _console = operated.then(|| Console::open(scope, &dismiss));
        args.server.run(&shape, &instance, &mut Teller::default())
    })
}

/// Reports why connections were closed, when the last client has left and at the end.
#[derive(Default)]
struct Teller {
    said: [u64; CloseReason::ALL.len()],
}

impl StateStore<Register> for Teller {
    fn is_changed(&mut self, register: &Register) -> bool {
        self.said != CloseReason::ALL.map(|why| register.closed(why))
    }

    fn save(&mut self, register: &Register) -> Result<(), String> {
        for (why, said) in CloseReason::ALL.into_iter().zip(&mut self.said) {
            let count = register.closed(why);
            if count != *said {
                let plural = if count == 1 { "" } else { "s" };
                eprintln!("{count} connection{plural} {}", why.words());
                *said = count;
            }
        }
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        None
    }
}
