//! Small servers on other runtimes.

use super::{Site, words};
use anyhow::{Context, Result, bail};
use lab::plan::{Arm, fnv1a};
use std::path::{Path, PathBuf};
use std::process::Command;

const GO: &str = include_str!("../../examples/market.go");
const NODE: &str = include_str!("../../examples/market.mjs");

/// Where a server of ours listens.
const HOST: [&str; 2] = ["--host", "{host}"];

/// The market on tokio, single-threaded or multi-threaded.
pub(super) fn tokio(site: &Site<'_>, threads: bool) -> Arm {
    let exe = site.exe.display().to_string();
    let mut command =
        words(&[&exe, "peer", "tokio", "--port", "{port}", "--data", "{dir}/stock.txt"]);
    command.extend(words(&HOST));
    if threads {
        command.push("--threads".to_string());
    }
    let on = if threads { "all cores" } else { "one thread" };
    stock(command, format!("the market on tokio, a task for each connection, {on}"))
}

/// The echo of a game server's library on tokio.
pub(super) fn echo(site: &Site<'_>, threads: bool) -> Arm {
    let exe = site.exe.display().to_string();
    let mut command = words(&[&exe, "peer", "echo", "--port", "{port}"]);
    command.extend(words(&HOST));
    if threads {
        command.push("--threads".to_string());
    }
    let on = if threads { "all cores" } else { "one thread" };
    Arm {
        command,
        target: "echo://{address}".to_string(),
        note: format!("the echo on tokio, a task for each connection, {on}"),
        ..Arm::default()
    }
}

/// One page on hyper, from memory.
pub(super) fn hyper(site: &Site<'_>) -> Arm {
    let exe = site.exe.display().to_string();
    Arm {
        command: words(&[
            &exe,
            "peer",
            "hyper",
            "--port",
            "{port}",
            HOST[0],
            HOST[1],
            "--data",
            "{dir}/www/index.html",
        ]),
        target: "http://{address}/".to_string(),
        note: "one page from memory on hyper and tokio, one thread".to_string(),
        ..Arm::default()
    }
}

/// The market in Go, built once for each version of its source.
pub(super) fn go(site: &Site<'_>) -> Result<Arm> {
    let program = built(site.cache, "market.go", GO, "go", &|source, program| {
        words(&["go", "build", "-o", &program.display().to_string(), &source.display().to_string()])
    })?;
    let program = program.display().to_string();
    let command = words(&[&program, "{port}", "{dir}/stock.txt"]);
    Ok(stock(command, "the market in Go, a goroutine for each connection".to_string()))
}

/// The market in Node.
pub(super) fn node(site: &Site<'_>) -> Result<Arm> {
    tool("node")?;
    let source = written(site.cache, "market.mjs", NODE)?;
    let command = words(&["node", &source.display().to_string(), "{port}", "{dir}/stock.txt"]);
    Ok(stock(command, "the market in Node, one event loop".to_string()))
}

fn stock(command: Vec<String>, note: String) -> Arm {
    Arm { command, target: "stock://{address}".to_string(), note, ..Arm::default() }
}

/// Writes a source into the cache under a name that changes with it.
fn written(cache: &Path, name: &str, text: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let path = cache.join(format!("{:08x}-{name}", fnv1a(text.as_bytes()) as u32));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Builds a source unless it has been built before.
fn built(
    cache: &Path,
    name: &str,
    text: &str,
    by: &str,
    command: &dyn Fn(&Path, &Path) -> Vec<String>,
) -> Result<PathBuf> {
    let source = written(cache, name, text)?;
    let program = source.with_extension("bin");
    if program.is_file() {
        return Ok(program);
    }
    tool(by)?;
    // The program is built under a temporary name first, because two races may build at the same
    // time.
    let fresh = cache.join(format!("fresh-{}", std::process::id()));
    let words = command(&source, &fresh);
    let output = Command::new(&words[0]).args(&words[1..]).output();
    let output = output.with_context(|| format!("cannot start {by}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " / ");
        bail!("{by} cannot build {}: {said}", source.display());
    }
    std::fs::rename(&fresh, &program)
        .with_context(|| format!("cannot write {}", program.display()))?;
    Ok(program)
}

/// Whether a tool is installed.
fn tool(name: &str) -> Result<()> {
    match which::which(name).is_ok() {
        true => Ok(()),
        false => bail!("expected `{name}` in PATH, found none: install it or leave this arm out"),
    }
}
