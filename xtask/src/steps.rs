//! Runs child processes one after the other, each with its elapsed time.
//!
//! A step inherits stdout and stderr, so the closing lines of `cargo test` stay as they are. The
//! step's own lines go to stderr.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The profile of every build here. There is one profile, so that nothing is compiled twice.
pub const PROFILE: &str = "ci";

/// The `cargo` that started us, or the one on the path.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(crate::root()).stdin(Stdio::null());
    // Build scripts that read the variables of our own package would run again, and so would
    // everything that depends on them.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs `command` to its end.
///
/// # Errors
/// If it cannot be started (`needs` names the package to install) or does not exit with 0.
pub fn run(command: &mut Command, needs: &str) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot start `{program}`: {needs}"))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// The command line of `command` as one would type it.
pub fn line(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

/// Runs `body` as the step `name`: prints a heading before and the elapsed time after.
///
/// # Errors
/// The error of `body`, with the name of the step.
pub fn step<T>(name: &str, body: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    eprintln!("── {name}");
    let start = Instant::now();
    let result = body();
    let mark = if result.is_ok() { "ok" } else { "FAILED" };
    eprintln!("── {name}: {mark} in {}", elapsed(start.elapsed()));
    result.with_context(|| format!("step `{name}`"))
}

/// `time` for reading: `4.2 s`, `3 min 07 s`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

/// Cargo's output directory: `CARGO_TARGET_DIR`, the configuration, or `target`.
///
/// # Errors
/// If `cargo metadata` fails.
pub fn target_dir() -> anyhow::Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(crate::root())
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// A binary of the workspace in the directory of `profile`.
///
/// # Errors
/// If it has not been built.
pub fn binary(name: &str, profile: &str) -> anyhow::Result<PathBuf> {
    let path = target_dir()?.join(profile).join(name);
    if !path.is_file() {
        bail!("expected the binary {} and found none: build it first", path.display());
    }
    Ok(path)
}

/// A server, killed when it is dropped.
pub struct Server {
    /// Its process; its stderr is piped.
    pub child: Child,
    /// Where it listens.
    pub address: String,
}

impl Server {
    /// Starts a server, which first prints its port, or `{"listening": "ADDRESS:PORT"}`.
    ///
    /// # Errors
    /// If it does not start or prints neither; with what it wrote to stderr.
    pub fn start(command: &mut Command) -> anyhow::Result<Server> {
        // A server may serve while its input is open.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("start `{}`", line(command)))?;
        let mut server = Server { child, address: String::new() };
        let out = server.child.stdout.take().context("its output is piped")?;
        let mut said = String::new();
        BufReader::new(out).read_line(&mut said).context("read where it listens")?;
        let ready: serde_json::Value = serde_json::from_str(said.trim()).unwrap_or_default();
        server.address = match (ready["listening"].as_str(), ready.as_u64()) {
            (Some(address), _) => address.to_owned(),
            (None, Some(port)) => format!("127.0.0.1:{port}"),
            (None, None) => {
                let _ = server.child.kill();
                let err = server.child.stderr.take().map(std::io::read_to_string);
                let err = err.and_then(Result::ok).unwrap_or_default();
                bail!("expected where `{}` listens, found `{said}`: {err}", line(command));
            }
        };
        Ok(server)
    }

    /// Stops it by `SIGTERM` and waits for its end.
    ///
    /// # Errors
    /// If kill(1) fails.
    pub fn stop(mut self) -> anyhow::Result<ExitStatus> {
        let pid = self.child.id().to_string();
        run(Command::new("kill").args(["-TERM", &pid]), "coreutils")?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_child_is_an_error_that_names_its_command_line() {
        let error = run(Command::new("false").arg("x"), "coreutils").unwrap_err();
        assert!(error.to_string().contains("`false x` failed"), "{error}");
    }

    #[test]
    fn a_missing_program_is_an_error_that_says_what_to_install() {
        let mut command = Command::new("no-such-program-here");
        let error = run(&mut command, "install it by hand").unwrap_err();
        assert!(error.to_string().contains("install it by hand"), "{error}");
    }

    #[test]
    fn elapsed_time_is_readable() {
        assert_eq!(elapsed(Duration::from_millis(4_200)), "4.2 s");
        assert_eq!(elapsed(Duration::from_secs(187)), "3 min 07 s");
    }
}
