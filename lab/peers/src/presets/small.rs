//! Small servers on other runtimes.

use super::{Site, words};
use anyhow::{Context, Result, bail};
use lab::plan::{Arm, fnv1a};
use lab::service::Service;
use std::path::{Path, PathBuf};
use std::process::Command;

const GO: &str = include_str!("../../examples/market.go");
const NODE: &str = include_str!("../../examples/market.mjs");
const JAVA: &str = include_str!("../../examples/Market.java");
/// The first Java whose virtual threads are no preview (JEP 444).
const JAVA_MIN: u32 = 21;

/// Where a server of ours listens.
const HOST: [&str; 2] = ["--host", "{host}"];
const STOCK: &str = "stock://{address}";

/// The market, or the echo of a game server's library, on tokio: single-threaded or multi-threaded.
pub(super) fn tokio(site: &Site<'_>, threads: bool) -> Arm {
    let exe = site.exe.display().to_string();
    let is_echo = site.service == Service::Echo;
    let (peer, what) = if is_echo { ("echo", "the echo") } else { ("tokio", "the market") };
    let mut command = words(&[&exe, "peer", peer, "--port", "{port}"]);
    if !is_echo {
        command.extend(words(&["--data", "{dir}/stock.txt"]));
    }
    command.extend(words(&HOST));
    if threads {
        command.push("--threads".to_string());
    }
    let on = if threads { "all cores" } else { "one thread" };
    let note = format!("{what} on tokio, a task for each connection, {on}");
    let target = if is_echo { "echo://{address}" } else { STOCK };
    Arm { command, target: target.to_string(), note, ..Arm::default() }
}

/// One page on hyper, from memory.
pub(super) fn hyper(site: &Site<'_>) -> Arm {
    let exe = site.exe.display().to_string();
    Arm {
        command: [
            words(&[&exe, "peer", "hyper", "--port", "{port}", "--data", "{dir}/www/index.html"]),
            words(&HOST),
        ]
        .concat(),
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

pub(super) fn node(site: &Site<'_>) -> Result<Arm> {
    tool("node")?;
    let source = written(site.cache, "market.mjs", NODE)?;
    let command = words(&["node", &source.display().to_string(), "{port}", "{dir}/stock.txt"]);
    Ok(stock(command, "the market in Node, one event loop".to_string()))
}

/// The market in Java, compiled once for each version of its source.
pub(super) fn java(site: &Site<'_>) -> Result<Arm> {
    tool("javac")?;
    let said = Command::new("javac").arg("-version").output().context("cannot start javac")?;
    has_virtual_threads(&String::from_utf8_lossy(&said.stdout))?;
    let classes = built(site.cache, "Market.java", JAVA, "javac", &|source, classes| {
        words(&["javac", "-d", &classes.display().to_string(), &source.display().to_string()])
    })?;
    let classes = classes.display().to_string();
    let command = words(&["java", "-cp", &classes, "Market", "{port}", "{dir}/stock.txt"]);
    let note = "the market in Java, a virtual thread for each connection";
    Ok(stock(command, note.to_string()))
}

/// Checks what `javac -version` prints: `javac 21.0.2`.
fn has_virtual_threads(said: &str) -> Result<()> {
    let found = said.trim().trim_start_matches("javac ");
    let major = found.split(|c: char| !c.is_ascii_digit()).next().and_then(|it| it.parse().ok());
    if major.is_some_and(|major: u32| major >= JAVA_MIN) {
        return Ok(());
    }
    bail!(
        "expected Java {JAVA_MIN} or newer, because of virtual threads, found {found}: install it \
         or leave this arm out"
    )
}

fn stock(command: Vec<String>, note: String) -> Arm {
    Arm { command, target: STOCK.to_string(), note, ..Arm::default() }
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
    if program.exists() {
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
    match std::fs::rename(&fresh, &program) {
        // The other race was first; a folder cannot replace its folder.
        Err(_) if program.is_dir() => Ok(program),
        renamed => {
            renamed.with_context(|| format!("cannot write {}", program.display()))?;
            Ok(program)
        }
    }
}

fn tool(name: &str) -> Result<()> {
    match which::which(name).is_ok() {
        true => Ok(()),
        false => bail!("expected `{name}` in PATH, found none: install it or leave this arm out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_java_without_virtual_threads_is_named() {
        for good in ["javac 21.0.2\n", "javac 25-ea\n"] {
            has_virtual_threads(good).expect(good);
        }
        for (old, found) in [("javac 17.0.15\n", "found 17.0.15:"), ("javac 1.8.0_412\n", "1.8.0")]
        {
            let why = has_virtual_threads(old).expect_err(old).to_string();
            assert!(why.starts_with("expected Java 21 or newer") && why.contains(found), "{why}");
        }
    }
}
