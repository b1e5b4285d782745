//! `roundhouse swarm`: generates load for a Locust master, which sets the rate and adds up.
//!
//! stdout gets one line of JSON when the master has accepted the worker, and one at the end of each
//! test with the worker's own counts, so that a script can compare them with the master's files.
//! Progress goes to stderr. Exit code 0: the master or the user has ended it; 1: no master was
//! found; 2: wrong usage.

use std::process::ExitCode;
use std::time::Duration;

use ::swarm::load_crew::LoadCrew;
use ::swarm::run::{Notice, run as work};
use ::swarm::worker::Settings;
use anyhow::{Context, Result, bail};
use language::info;
use serde_json::json;
use wire::conf::span;

/// The default port of a Locust master.
const PORT: u16 = 5557;
/// A name has at most 255 bytes (ZMTP 3.0); a number may be appended to ours.
const NAME_MAX: usize = 200;

/// The arguments of `swarm`.
#[derive(clap::Args)]
pub struct Args {
    /// The Locust master; the default port is 5557
    #[arg(long, value_name = "HOST[:PORT]", value_parser = master)]
    master: String,
    /// The name of this worker on the master's page; it must be unique [default: made from the
    /// host]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Run on this processor only
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Reconnect after this long without a message from the master
    #[arg(long, default_value = "15s", value_parser = silence, value_name = "TIME")]
    silence: Duration,
    /// Give up after this long without a master
    #[arg(long, default_value = "5m", value_parser = span, value_name = "TIME")]
    patience: Duration,
}

/// Works until the master or the user ends it.
pub fn run(args: Args) -> Result<ExitCode> {
    let name = match args.name {
        Some(name) => name,
        None => own_name().context("a name for this worker")?,
    };
    if let Some(cpu) = args.cpu {
        // Threads that are started later inherit it.
        sys::cpu::set_affinity(&[cpu]).with_context(|| {
            format!("expected --cpu to name a processor that this process may use, found {cpu}")
        })?;
    }
    let settings = Settings { name, silence: args.silence, patience: args.patience };
    let master = args.master.clone();
    info!("roundhouse swarm: looking for the Locust master at {master}");
    let notify = |notify| match notify {
        Notice::Known(name, index) => {
            println!("{}", json!({ "master": master, "name": name, "worker": index }));
        }
        Notice::TestSummary(account) => match serde_json::to_string(&account) {
            Ok(line) => println!("{line}"),
            Err(error) => info!("roundhouse swarm: an account that is no JSON: {error}"),
        },
        Notice::Line(line) => info!("{line}"),
    };
    work(&args.master, settings, LoadCrew::new, notify)?;
    Ok(ExitCode::SUCCESS)
}

/// A unique name: host, process id and time.
fn own_name() -> Result<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let mut name = format!("{}_{}_{:x}", host.trim(), std::process::id(), since.as_micros());
    if name.len() > NAME_MAX {
        name = format!("{}_{:x}", std::process::id(), since.as_micros());
    }
    Ok(name)
}

fn name(text: &str) -> Result<String> {
    if text.is_empty() || text.len() > NAME_MAX {
        bail!("expected a name of 1 to {NAME_MAX} bytes, found {} bytes", text.len());
    }
    Ok(text.to_owned())
}

fn silence(text: &str) -> Result<Duration> {
    let silence = span(text).map_err(anyhow::Error::msg)?;
    // A master sends a message each second.
    if silence < Duration::from_secs(2) {
        bail!("expected 2s or more, found {text}: a master that is well answers once a second");
    }
    Ok(silence)
}

/// An address with its port.
fn master(text: &str) -> Result<String> {
    let text = text.strip_prefix("tcp://").unwrap_or(text);
    let bad = || format!("expected HOST or HOST:PORT such as 10.0.0.1:5557, found `{text}`");
    let (host, port) = match text.rsplit_once(':') {
        // An address of IPv6 without brackets is all colons.
        Some((host, _)) if host.contains(':') && !text.starts_with('[') => {
            (format!("[{text}]"), PORT)
        }
        Some((host, port)) if !text.ends_with(']') => {
            (host.to_owned(), port.parse().ok().filter(|&port| port > 0).with_context(bad)?)
        }
        _ => (text.to_owned(), PORT),
    };
    if host.is_empty() || host.contains(['/', ' ']) {
        bail!(bad());
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_have_a_port() {
        for (text, expected) in [
            ("box", "box:5557"),
            ("tcp://10.0.0.1", "10.0.0.1:5557"),
            ("10.0.0.1:99", "10.0.0.1:99"),
            ("[::1]", "[::1]:5557"),
            ("[::1]:99", "[::1]:99"),
            ("fe80::1", "[fe80::1]:5557"),
        ] {
            assert_eq!(master(text).expect(text), expected);
        }
        for bad in ["", ":5557", "a:b", "a:0", "a:70000", "http://a:1", "a b"] {
            let Err(why) = master(bad) else { panic!("{bad} was taken") };
            assert!(why.to_string().contains("expected HOST"), "{why}");
        }
    }

    #[test]
    fn names_and_silences_have_bounds() {
        assert_eq!(name("w1").expect("a name"), "w1");
        assert!(name("").is_err() && name(&"x".repeat(201)).is_err());
        assert_eq!(silence("3s").expect("a time"), Duration::from_secs(3));
        assert!(silence("1s").is_err() && silence("soon").is_err());
        let (one, two) = (own_name().expect("a name"), own_name().expect("a name"));
        assert!(one != two && name(&one).is_ok(), "{one} {two}");
    }
}
