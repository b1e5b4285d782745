//! `roundhouse serve probe`: the service of the engines' own suite, in the real binary so that it
//! also runs where workers are processes. A broken law panics, which ends the worker.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use engines::{Assets, NoStateStore};
use memory::Region;
use seam::laws::probe::{Probe, World, asset};
use seam::laws::{Watched, panicking};

use super::server::{ServerArgs, ServiceInstance, usage};

/// The flags of the probe.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Deal with one request a step
    #[arg(long)]
    one_by_one: bool,
    /// Small bounds, so that back-pressure comes early
    #[arg(long)]
    narrow: bool,
    /// How long a fresh connection may be silent
    #[arg(long, value_parser = load::parse::span, value_name = "TIME")]
    patience: Option<Duration>,
    /// How often the world ticks
    #[arg(long, value_parser = load::parse::span, value_name = "TIME")]
    tick: Option<Duration>,
}

/// Serves the probe until it is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = match args.server.shape() {
        Ok(shape) => shape,
        Err(refused) => return Ok(usage(&refused.to_string())),
    };
    let wide = if args.narrow { Probe::narrow() } else { Probe::default() };
    let Args { one_by_one, patience, tick, .. } = args;
    let service = Watched::new(Probe { one_by_one, patience, tick, ..wide }, panicking);
    let mut state: Region<World> = Region::place(args.server.placement(&shape))
        .context("cannot place the probe's state in memory")?;
    state.init(&[]).context("the probe needs no seed")?;
    let mut assets = Assets::default();
    assets.add(unnamed(&asset()).context("cannot write the probe's asset")?);
    let instance = ServiceInstance {
        name: "probe",
        port: 0,
        service: &service,
        state: &state,
        assets: &assets,
        handover: None,
    };
    args.server.run(&shape, &instance, &mut NoStateStore)
}

/// A file with `bytes` in it that has no name any more.
fn unnamed(bytes: &[u8]) -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("roundhouse-probe-{}", std::process::id()));
    std::fs::write(&path, bytes)?;
    let file = File::open(&path);
    std::fs::remove_file(&path)?;
    file
}
