//! Servers known by name.

pub mod apache;
mod haproxy;
mod nginx;
mod redis;
mod small;

use anyhow::{Result, bail};
use lab::plan::{Arm, Provision};
use lab::service::Service;
use std::path::Path;

/// Every name that [`preset`] knows.
pub const NAMES: [&str; 12] = [
    "nginx",
    "apache-prefork",
    "apache-worker",
    "apache-event",
    "haproxy",
    "redis",
    "tokio",
    "tokio-threads",
    "hyper",
    "go",
    "node",
    "java",
];

/// The settings of the race that a preset needs.
pub struct Site<'a> {
    /// Our own program, which also runs the peers on other runtimes.
    pub exe: &'a Path,
    /// The service to be raced.
    pub service: Service,
    /// The directory for built examples.
    pub cache: &'a Path,
}

/// The arm of a known server; `directives` override or extend its configuration.
///
/// # Errors
/// An unknown name, a service that the server does not offer, an invalid directive, or a missing
/// tool.
pub fn preset(name: &str, directives: &toml::Table, site: &Site<'_>) -> Result<Arm> {
    let threads = name == "tokio-threads";
    let (serves, arm) = match name {
        "nginx" => (Service::Web, nginx::arm(directives)?),
        "apache-prefork" | "apache-worker" | "apache-event" => {
            (Service::Web, apache::arm(name.trim_start_matches("apache-"), directives)?)
        }
        // Those servers speak a separate protocol, or that of the server behind them.
        "haproxy" => (site.service, haproxy::arm(site, directives)?),
        "redis" => (site.service, redis::arm(directives)?),
        "tokio" | "tokio-threads" if site.service == Service::Echo => {
            (Service::Echo, small::tokio(site, threads))
        }
        "tokio" | "tokio-threads" => (Service::Stock, small::tokio(site, threads)),
        "hyper" => (Service::Web, small::hyper(site)),
        "go" => (Service::Stock, small::go(site)?),
        "node" => (Service::Stock, small::node(site)?),
        "java" => (Service::Stock, small::java(site)?),
        _ => bail!("expected a server out of {}, found `{name}`", NAMES.join(", ")),
    };
    if serves != site.service {
        bail!("{name} does not serve {}", site.service.name());
    }
    Ok(Arm { name: name.to_string(), ..arm })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn file(name: &str, text: String) -> Provision {
    Provision { name: name.to_string(), text }
}

/// A directive's value in configuration syntax; `true` and `false` become on and off.
fn value(of: &toml::Value) -> Result<String> {
    Ok(match of {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(true) => "on".to_string(),
        toml::Value::Boolean(false) => "off".to_string(),
        toml::Value::Array(parts) => {
            let parts: Result<Vec<String>> = parts.iter().map(value).collect();
            parts?.join(" ")
        }
        other => bail!("expected a text, a number, true, false or a list, found `{other}`"),
    })
}

/// Defaults, a name and a value a line, with a plan's directives on top, in the order of the
/// defaults, new ones last. Names are compared without regard to case, as the servers do.
fn merged(defaults: &str, directives: &toml::Table) -> Result<Vec<(String, String)>> {
    let lines = defaults.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(' ').unwrap_or((line, "")));
    let mut all: Vec<(String, String)> =
        pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    for (name, given) in directives {
        let sound = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let given = value(given)?;
        if !sound || given.contains(['\n', '\r']) {
            bail!("expected a directive on one line, found `{name}`");
        }
        match all.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, value)) => *value = given,
            None => all.push((name.clone(), given)),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
