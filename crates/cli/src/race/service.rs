//! The services of a race: each one's default arms, points and files.

use super::stock;
use super::words::{Named, split};
use anyhow::{Result, anyhow, bail};
use engines::PRESETS;
use lab::file::{ArmSpec, PointSpec};
use lab::plan::{Arm, Provision};
use peers::Site;
use std::path::{Path, PathBuf};

/// Requests in flight on each connection, one load point each.
const DEPTHS: [u32; 2] = [1, 16];
/// Connections at one time.
pub const CONNECTIONS: u32 = 8;
/// Round trips after which a client reconnects. An engine that serves one client at a time would
/// never reach the second one otherwise. One request in 64 meets the accept queue, so p99 shows
/// the cost of waiting there.
pub const ROUND_TRIPS: u64 = 64;
/// The page that web servers serve: a kilobyte, as small pages are.
const PAGE_BYTES: usize = 1024;

/// Which service is raced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The stock market.
    Stock,
    /// A page over HTTP.
    Web,
}

impl Service {
    /// The service of that name.
    pub fn by_name(name: &str) -> Option<Service> {
        match name {
            "stock" => Some(Service::Stock),
            "web" => Some(Service::Web),
            _ => None,
        }
    }

    /// The arms of a race that names none.
    pub fn arms(self) -> Vec<String> {
        let names: &[&str] = match self {
            Service::Stock => &["iterative", "epoll", "prefork", "uring"],
            Service::Web => &["epoll", "prefork", "uring", "nginx"],
        };
        names.iter().map(ToString::to_string).collect()
    }

    /// The question of every race on the service.
    pub fn question(self, names: &str) -> String {
        match self {
            Service::Stock => format!("Which serves the stock market best: {names}?"),
            Service::Web => format!("Which serves a small page best: {names}?"),
        }
    }

    /// The ways of asking where a race names none.
    pub fn points(self) -> Vec<PointSpec> {
        let point = |&depth: &u32| PointSpec {
            name: Some(format!("depth {depth}")),
            mix: self.mix().map(String::from),
            ..PointSpec::closed(CONNECTIONS, depth, ROUND_TRIPS * u64::from(depth))
        };
        DEPTHS.iter().map(point).collect()
    }

    /// The default mix of requests.
    pub fn mix(self) -> Option<&'static str> {
        (self == Service::Stock).then_some("show=5,buy=50,sell=45")
    }

    /// The files that every trial finds in its directory.
    ///
    /// # Errors
    /// `data` cannot be read or has the wrong format for the service.
    pub fn files(self, data: Option<&Path>) -> Result<Vec<Provision>> {
        match self {
            Service::Stock => Ok(vec![stock::book(data)?]),
            Service::Web => {
                let page = match data {
                    Some(path) => std::fs::read_to_string(path)
                        .map_err(|why| anyhow!("cannot read {}: {why}", path.display()))?,
                    None => page(),
                };
                Ok(vec![Provision { name: "www/index.html".to_string(), text: page }])
            }
        }
    }

    fn peer(self) -> peers::Service {
        match self {
            Service::Stock => peers::Service::Stock,
            Service::Web => peers::Service::Web,
        }
    }

    fn target(self) -> &'static str {
        match self {
            Service::Stock => "stock://{address}",
            Service::Web => "http://{address}/",
        }
    }

    /// One of our engines, by the name of its preset, with further flags. A name that is unknown
    /// here still makes an arm: the server refuses it and the refusal is the arm's row.
    fn engine(self, exe: &Path, name: &str) -> Arm {
        let command = match self {
            Service::Stock => {
                format!("serve stock --port 0 --data {{dir}}/stock.txt --engine {name}")
            }
            Service::Web => format!("serve http {{dir}}/www --port 0 --engine {name}"),
        };
        let known = PRESETS.iter().find(|preset| preset.name == name);
        let note = known.map_or("", |preset| preset.from);
        Arm {
            name: name.to_string(),
            command: [exe.display().to_string()]
                .into_iter()
                .chain(command.split(' ').map(String::from))
                .collect(),
            target: self.target().to_string(),
            // The source in brackets is for the reader of the presets.
            note: note.split(" (").next().unwrap_or_default().to_string(),
            ..Arm::default()
        }
    }

    /// The arm that a specification names.
    ///
    /// # Errors
    /// A preset that is unknown, cannot be built or does not offer the service; a command that
    /// cannot be taken apart.
    pub fn resolve(self, exe: &Path, spec: &ArmSpec) -> Result<Arm> {
        if let Some(name) = &spec.engine {
            return Ok(self.engine(exe, name));
        }
        if let Some(name) = &spec.preset {
            let (service, cache) = (self.peer(), cache());
            let site = Site { exe, service, cache: &cache };
            return peers::preset(name, &spec.directives, &site);
        }
        let command =
            split(spec.command.as_deref().unwrap_or_default()).map_err(|why| anyhow!(why))?;
        if command.is_empty() {
            bail!("expected a command, found nothing");
        }
        let note = command.join(" ");
        Ok(Arm { command, target: self.target().to_string(), note, ..Arm::default() })
    }
}

/// The arm of a name in `--arms`: a foreign server if the name is one, else one of our engines.
pub fn by_name(name: &str) -> ArmSpec {
    let named = Some(name.to_string());
    match peers::NAMES.contains(&name) {
        true => ArmSpec { preset: named, ..ArmSpec::default() },
        false => ArmSpec { engine: named, ..ArmSpec::default() },
    }
}

/// The arm of `--arm NAME=COMMAND`. A command that begins with `@` names an engine with flags, or a
/// foreign server with directives: `@epoll --edge`, `@nginx worker_processes=4`.
///
/// # Errors
/// If a directive is not `KEY=VALUE`.
pub fn by_flag(named: &Named) -> Result<ArmSpec> {
    let name = named.name.clone();
    let (first, rest) = named.command.split_first().ok_or_else(|| anyhow!("an empty command"))?;
    let Some(known) = first.strip_prefix('@') else {
        return Ok(ArmSpec { name, command: Some(named.text.clone()), ..ArmSpec::default() });
    };
    let mut spec = ArmSpec { name, ..by_name(known) };
    if spec.engine.is_some() {
        spec.args = rest.to_vec();
        return Ok(spec);
    }
    for directive in rest {
        let Some((key, value)) = directive.split_once('=') else {
            bail!("expected directives as KEY=VALUE after @{known}, found `{directive}`");
        };
        spec.directives.insert(key.to_string(), toml::Value::String(value.to_string()));
    }
    Ok(spec)
}

/// Where built examples are kept.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    base.or_else(home).unwrap_or_else(std::env::temp_dir).join("roundhouse/peers")
}

fn page() -> String {
    let head = "<!doctype html>\n<title>A page</title>\n<p>";
    let tail = "</p>\n";
    let words = "A small page, as most pages are. ";
    let middle: String = words.chars().cycle().take(PAGE_BYTES - head.len() - tail.len()).collect();
    format!("{head}{middle}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_serve_their_own_copy() {
        let spec = by_name("epoll");
        let arm = Service::Stock.resolve(Path::new("/bin/r"), &spec).expect("an engine");
        let words = arm.command.join(" ");
        assert_eq!(words, "/bin/r serve stock --port 0 --data {dir}/stock.txt --engine epoll");
        assert!(arm.note.starts_with("one event loop") && !arm.note.contains('('), "{}", arm.note);
        assert_eq!(page().len(), PAGE_BYTES);
    }

    #[test]
    fn arms_of_the_command_line() {
        let spec = |text: &str| by_flag(&text.parse().expect("named"));
        let edge = spec("edge=@epoll --edge").expect("an engine");
        assert_eq!((edge.engine.as_deref(), edge.args.len()), (Some("epoll"), 1));
        let four = spec("four=@nginx worker_processes=4").expect("a preset");
        assert_eq!(four.preset.as_deref(), Some("nginx"));
        assert_eq!(four.directives["worker_processes"].as_str(), Some("4"));
        let mine = spec("mine=./server -p {port}").expect("a command");
        assert_eq!(mine.command.as_deref(), Some("./server -p {port}"));
        assert!(spec("x=@nginx fast").is_err());
    }
}
