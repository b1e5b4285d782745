//! The servers that are compared, and how each is started.

use super::{Tools, toil, web};
use crate::bare;
use anyhow::Context;
use std::path::Path;

/// The request to an arm that counts lines and has no stocks, and the beginning of its reply.
pub const BUY: (&str, &str) = ("buy 1 1\\n", "[buy] success");
/// The request to the peer.
const INCR: (&str, &str) = ("INCR stock\\r\\n", ":");
/// Debian's path of the peer.
const REDIS: &str = "/usr/bin/redis-server";

/// A server that can take part in a duet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A bare loop and its form, `count` or `work`.
    Bare(&'static str, &'static str),
    /// One of our engines.
    Ours(&'static str),
    /// One of our engines with flags: the name in tables, the engine, the flags.
    Flagged(&'static str, &'static str, &'static str),
    /// redis-server, answering pipelined INCR.
    Redis,
    /// One of our engines serving HTTP, with flags.
    Web(&'static str, &'static str),
    /// The bare loop that answers HTTP.
    BareWeb,
    /// One of our engines serving the echo of a game server's library.
    Echo(&'static str),
    /// The same echo on tokio, one thread.
    EchoTokio,
    /// nginx with one worker and sendfile.
    Nginx,
    /// Apache with one of its processing modules.
    Apache(&'static str),
}

impl Arm {
    /// The name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Bare(name, form) => format!("bare-{name}-{form}"),
            Self::Ours(name) | Self::Flagged(name, ..) => name.to_owned(),
            Self::Redis => "redis".to_owned(),
            Self::Web(engine, _) => engine.to_owned(),
            Self::Echo(engine) => engine.to_owned(),
            Self::EchoTokio => "tokio".to_owned(),
            Self::BareWeb => "bare-web".to_owned(),
            Self::Nginx => "nginx".to_owned(),
            Self::Apache(module) => format!("apache-{module}"),
        }
    }

    /// The command that serves `connections` at a time; the duet fills in `{port}`, and `{dir}`
    /// with a copy of the book.
    pub fn command(self, tools: &Tools, connections: u32) -> String {
        let stock = "{dir}/stock.txt";
        // A worker keeps its client, and in a duet no client leaves.
        let workers = |engine: &str| match keeps_its_client(engine) {
            true => format!(" --workers {connections}"),
            false => String::new(),
        };
        let ours = |engine: &str, flags: &str| {
            format!(
                "{} serve stock --port 0 --engine {engine} --data {stock}{}{}{flags}",
                tools.roundhouse.display(),
                workers(engine),
                if flags.is_empty() { "" } else { " " },
            )
        };
        let foreign = |name: &str, module: &str| {
            let script = web::script(&tools.room, name);
            format!("sh {} {{port}} {{dir}} {module}", script.display())
        };
        match self {
            Self::Bare(name, form) => {
                format!("{}/{name} {form} 0 {stock} {connections}", tools.bare.display())
            }
            Self::Ours(engine) => ours(engine, ""),
            Self::Flagged(_, engine, flags) => ours(engine, flags),
            Self::Redis => format!(
                "{REDIS} --port {{port}} --bind 127.0.0.1 --save '' --appendonly no \
                 --daemonize no --loglevel warning"
            ),
            Self::Web(engine, flags) => format!(
                "{} serve http --demo --port 0 --engine {engine}{}{}{flags} {}",
                tools.roundhouse.display(),
                workers(engine),
                if flags.is_empty() { "" } else { " " },
                web::site(&tools.room).display(),
            ),
            Self::Echo(engine) => {
                format!("{} serve echo --port 0 --engine {engine}", tools.roundhouse.display())
            }
            Self::EchoTokio => {
                format!("{} peer echo --port {{port}}", tools.roundhouse.display())
            }
            Self::BareWeb => format!("{}/{} count 0", tools.bare.display(), bare::WEB),
            Self::Nginx => foreign("nginx", ""),
            Self::Apache(module) => foreign("apache", module),
        }
    }

    /// The path that it receives in place of `path`. Apache computes with a different loop than
    /// ours, so its path names the number of rounds that take as long on this machine.
    pub fn path(self, path: &str, tools: &Tools) -> anyhow::Result<String> {
        match (self, path.strip_prefix(toil::OURS)) {
            (Self::Apache(_), Some(ms)) => {
                let ms: f64 = ms.parse().context("milliseconds of work")?;
                Ok(format!("/work?rounds={:.0}", tools.toil.rounds_per_ms(tools)? * ms))
            }
            _ => Ok(path.to_owned()),
        }
    }

    /// The constant request that it needs, and the beginning of the reply, if it is no market.
    pub fn constant(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Bare(_, "count") => Some(BUY),
            Self::Redis => Some(INCR),
            _ => None,
        }
    }

    /// Whether it sends packets back instead of serving a market or files.
    pub fn is_echo(self) -> bool {
        matches!(self, Self::Echo(_) | Self::EchoTokio)
    }

    /// The reason why it cannot run on this machine, if any.
    pub fn absent(self) -> Option<String> {
        let (program, package) = match self {
            Self::Redis => (REDIS, "redis-server"),
            Self::Nginx => (web::NGINX, "nginx-light"),
            Self::Apache(_) => (web::APACHE, "apache2-bin"),
            _ => return None,
        };
        let missing = !Path::new(program).exists();
        missing.then(|| format!("{program} is not there (Debian: `apt install {package}`)"))
    }
}

/// Whether a worker of this engine serves one client at a time, so that there must be one worker
/// for each connection.
fn keeps_its_client(engine: &str) -> bool {
    matches!(engine, "prefork" | "pool")
}
