//! `roundhouse pin`: runs a command on given cores, for the laboratory, which starts any program
//! but may not touch the scheduler itself.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use sys::signal::Signal;

/// The arguments of `pin`.
#[derive(clap::Args)]
pub struct Args {
    /// Cores, counted from 0, with commas between them
    #[arg(value_delimiter = ',', required = true)]
    cpus: Vec<usize>,
    /// The command and its arguments, behind `--`
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Becomes the command; returns only if it cannot be started.
pub fn run(args: Args) -> Result<ExitCode> {
    sys::cpu::set_affinity(&args.cpus).with_context(|| {
        format!("cannot run on cores {:?}: see /proc/self/status, Cpus_allowed_list", args.cpus)
    })?;
    // What the laboratory started must not outlive it. The wish survives the exec (prctl(2)).
    sys::process::set_parent_death_signal(Signal::TERM).context("cannot follow the laboratory")?;
    // A shell that started us in the background has made us deaf to both, and what is deaf from
    // birth cannot be asked to stop by them.
    for signal in [Signal::INT, Signal::QUIT] {
        sys::signal::set_default(signal).context("cannot undo what a shell has arranged")?;
    }
    let [program, arguments @ ..] = args.command.as_slice() else {
        unreachable!("clap requires a command")
    };
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start `{program}`"))
}
