//! `cargo xtask bare`: compiles the C loops of `bare/`, the physical limit as programs.

use crate::steps;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The loops; each is one C file and becomes one binary of that name.
pub const LOOPS: &[&str] =
    &["iterative", "fork", "thread", "pool", "prefork", "select", "poll", "epoll", "uring"];

/// The loop that speaks HTTP/1.1 instead of the market's lines.
pub const WEB: &str = "web";

/// The loop that answers HTTP/1.1 past the kernel's TCP, on a network interface.
pub const FRAMES: &str = "xdp";

/// The loop with a switch for each thing that the kernel offers to lower its share.
pub const OPTIONS: &str = "options";

/// One set of flags for all: those of a distribution, so that the bound is no special build.
const FLAGS: &[&str] = &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread"];

/// The remedy where no compiler is found.
const NEEDS: &str = "a C compiler and the kernel's headers are needed \
    (Debian: `apt install gcc libc6-dev linux-libc-dev`; CC names another compiler)";

/// Compiles into `bare/build`.
///
/// # Errors
/// Where there is no C compiler, or it fails.
pub fn run(_args: &[String]) -> anyhow::Result<()> {
    let into = crate::root().join("bare/build");
    for path in build(&into)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Compiles all loops into the directory `into`, which is made; returns their paths.
///
/// # Errors
/// Where there is no C compiler, or it fails.
pub fn build(into: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    std::fs::create_dir_all(into).with_context(|| format!("create {}", into.display()))?;
    let mut built = Vec::new();
    for name in LOOPS.iter().chain([&WEB, &FRAMES, &OPTIONS]) {
        let source = crate::root().join("bare").join(name).with_extension("c");
        let binary = into.join(name);
        let mut command = Command::new(&compiler);
        command.args(FLAGS).arg("-o").arg(&binary).arg(source);
        steps::run(&mut command, NEEDS)
            .with_context(|| format!("compile bare/{name}.c: {NEEDS}"))?;
        built.push(binary);
    }
    Ok(built)
}
