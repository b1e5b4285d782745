//! The services of a race: the arms, load points and questions of a race that names none, and how a
//! server of ours is started on each.

use crate::file::PointSpec;
use crate::plan::{Arm, Provision};
use anyhow::{Context, Result};
use stats::words::listed;
use std::path::Path;

/// Requests in flight on each connection, one load point each.
const DEPTHS: [u32; 2] = [1, 16];
/// Connections at once.
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
    /// The echo of a game server's library.
    Echo,
}

/// A question with more names is harder to read than the table.
const NAMES_MAX: usize = 5;

impl Service {
    /// All of them.
    const ALL: [Service; 3] = [Service::Stock, Service::Web, Service::Echo];

    /// The names of all.
    pub fn names() -> [&'static str; 3] {
        Service::ALL.map(Service::name)
    }

    /// Its name in plans.
    pub fn name(self) -> &'static str {
        match self {
            Service::Stock => "stock",
            Service::Web => "web",
            Service::Echo => "echo",
        }
    }

    /// The service of that name; `http` is the web, as in `roundhouse serve http`.
    pub fn by_name(name: &str) -> Option<Service> {
        let name = if name == "http" { "web" } else { name };
        Service::ALL.into_iter().find(|service| service.name() == name)
    }

    /// The foreign servers that take part in a race that names no arms, if they are installed.
    pub fn foreign(self) -> &'static [&'static str] {
        match self {
            Service::Stock => &["redis", "go", "node", "java"],
            Service::Web => &["nginx"],
            Service::Echo => &["tokio"],
        }
    }

    /// The question of every race on the service.
    pub fn question(self, names: &[&str]) -> String {
        let task = match self {
            Service::Stock => "serves the stock market",
            Service::Web => "serves a small page",
            Service::Echo => "sends packets back",
        };
        match names.len() {
            0..=NAMES_MAX => format!("Which {task} best: {}?", listed(names, "or")),
            many => format!("Which of {many} servers {task} best?"),
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

    /// The words after `roundhouse` that serve it at a free port from the trial's directory, which
    /// holds stock.txt or www/.
    pub fn words(self) -> &'static str {
        match self {
            Service::Stock => "serve stock --host {host} --port 0 --data {dir}/stock.txt",
            Service::Web => "serve http {dir}/www --host {host} --port 0",
            Service::Echo => "serve echo --host {host} --port 0",
        }
    }

    /// The generator's target.
    pub fn target(self) -> &'static str {
        match self {
            Service::Stock => "stock://{address}",
            Service::Web => "http://{address}/",
            Service::Echo => "echo://{address}",
        }
    }

    /// One of our engines, by the name of its preset. A name that no engine has still makes an arm:
    /// the server refuses it and the refusal is the arm's row.
    pub fn engine(self, exe: &Path, name: &str) -> Arm {
        self.ours(exe, name, &format!("--engine {name}"))
    }

    /// A server of ours with these flags, separated by blanks.
    pub fn ours(self, exe: &Path, name: &str, flags: &str) -> Arm {
        let words = self.words().split(' ').chain(flags.split_whitespace()).map(String::from);
        Arm {
            name: name.to_string(),
            command: [exe.display().to_string()].into_iter().chain(words).collect(),
            target: self.target().to_string(),
            ..Arm::default()
        }
    }

    /// The page that a race on the web serves: the one in `file`, or one of a kilobyte.
    ///
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    pub fn page(file: Option<&Path>) -> Result<Provision> {
        let text = match file {
            Some(path) => sys::input::read_text(path, sys::input::SMALL)
                .with_context(|| format!("cannot read {}", path.display()))?,
            None => page(),
        };
        Ok(Provision { name: "www/index.html".to_string(), text })
    }
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
        let arm = Service::Stock.engine(Path::new("/bin/r"), "epoll");
        let words = arm.command.join(" ");
        assert_eq!(
            words,
            "/bin/r serve stock --host {host} --port 0 --data {dir}/stock.txt --engine epoll"
        );
        let echo = Service::by_name("echo").expect("a service").engine(Path::new("/bin/r"), "port");
        assert_eq!(
            echo.command[1..],
            ["serve", "echo", "--host", "{host}", "--port", "0", "--engine", "port"]
        );
        let page = Service::page(None).expect("a page of ours");
        assert_eq!((page.text.len(), page.name.as_str()), (PAGE_BYTES, "www/index.html"));
    }
}
