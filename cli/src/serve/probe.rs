//! `roundhouse serve probe`: the service of the engines' own suite. It is in the real binary so
//! that it also runs where workers are processes. A broken law panics, which ends the worker.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use engines::{Assets, NoStateStore};
use memory::Region;
use sim::laws::probe::{Probe, World, asset};
use sim::laws::{Watched, panicking};
use wire::websocket::MessageKind;

use server::{Beside, ServerArgs, ServiceInstance};

/// The flags of the probe.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("0")))]
pub struct Args {
    /// Answer one request a step
    #[arg(long)]
    one_by_one: bool,
    /// Small bounds, so that back-pressure comes early
    #[arg(long)]
    narrow: bool,
    /// How long a fresh connection may be silent
    #[arg(long, value_parser = wire::conf::span, value_name = "TIME")]
    patience: Option<Duration>,
    /// How often the world ticks
    #[arg(long, value_parser = wire::conf::span, value_name = "TIME")]
    tick: Option<Duration>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Serves the probe until it is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.server.shape()?;
    let wide = if args.narrow { Probe::narrow() } else { Probe::default() };
    let Args { one_by_one, patience, tick, .. } = args;
    let probe = Probe { one_by_one, patience, tick, ..wide };
    let service = Arc::new(Watched::new(probe, panicking));
    let mut state: Region<World> = Region::place(args.server.placement(&shape))
        .context("cannot place the probe's state in memory")?;
    state.init(&[]).context("the probe needs no seed")?;
    let mut assets = Assets::default();
    assets.add(unnamed(&asset()).context("cannot write the probe's asset")?);
    let instance = ServiceInstance {
        name: "probe",
        port: 0,
        tries: &[],
        service: &service,
        state: &state,
        assets: &assets,
        handover: None,
        grammar: crate::grammar,
        facts: &[],
    };
    let websocket = args.server.websocket(MessageKind::Binary);
    args.server.run_layered(&shape, &instance, websocket, Beside::default(), &mut NoStateStore)
}

/// An unlinked file that holds `bytes`.
fn unnamed(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    Ok(file)
}
