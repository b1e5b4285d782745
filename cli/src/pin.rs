//! `roundhouse pin`: runs a command on given cores, for the laboratory, which starts programs but
//! has no access to the scheduler.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use sys::signal::Signal;

/// The arguments of `pin`.
#[derive(clap::Args)]
pub struct Args {
    /// Core numbers from 0, separated by commas
    #[arg(value_delimiter = ',', required = true)]
    cpus: Vec<usize>,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Becomes the command; returns only if it cannot be started.
pub fn run(args: Args) -> Result<ExitCode> {
    sys::cpu::set_affinity(&args.cpus).with_context(|| {
        format!("cannot run on cores {:?}: see /proc/self/status, Cpus_allowed_list", args.cpus)
    })?;
    // The command must not outlive the laboratory. The setting survives the exec (prctl(2)).
    sys::process::set_parent_death_signal(Signal::TERM).context("cannot follow the laboratory")?;
    // A shell ignores both signals for its background processes, and the command would inherit
    // that.
    for signal in [Signal::INT, Signal::QUIT] {
        sys::signal::set_default(signal).context("cannot undo what a shell has arranged")?;
    }
    let [program, arguments @ ..] = args.command.as_slice() else {
        unreachable!("clap requires a command")
    };
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start `{program}`"))
}
