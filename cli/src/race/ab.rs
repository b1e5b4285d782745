//! `roundhouse ab`: an old and a new server, and whether a request costs more on the new one. It is
//! a race in turns of two servers, whose protocol is found out.
//!
//! Each side is a command, an address or a URL. A command is started in every block, and, if no URL
//! names its protocol, once before the race to find it out (`probe`). A running server becomes an
//! arm through `roundhouse attach`, which finds its process, so its CPU time can be read; it cannot
//! be restarted, so it has no twin and no idle connections. The two arms become a plan of duets,
//! and `race::conduct` runs it like any other race.

use super::{Conduct, Foreign, conduct, usage};
use crate::attach;
use anyhow::{Context, Result, anyhow, bail};
use lab::command::split;
use lab::draft::Adjustments;
use lab::file::PlanFile;
use lab::metric::Metric;
use lab::plan::{Arm, LoadPoint, Plan, Provision, Turns};
use lab::probe::{self, Protocol};
use lab::server::Server;
use lab::service::Service;
use language::info;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tools::race::{book, room};
use wire::conf::span;

/// The most blocks; the answer or the budget ends the race earlier.
const BLOCKS: u32 = 200;
/// Windows on each server of a block: enough for a fresh process to pay for its start.
const WINDOWS: u32 = 5;
/// Silent connections to each server that is started here.
const SILENT: u32 = 100;
/// The time in which a server is ready to be asked for its protocol.
const READY: Duration = Duration::from_secs(5);

/// The arguments of `ab`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  roundhouse ab ./server-1.0 ./server-1.1        each prints {\"listening\": \"HOST:PORT\"}
  roundhouse ab http://127.0.0.1:8080/index.html http://127.0.0.1:8081/index.html
  roundhouse ab 'redis-server --port {port}' 'redis-server --port {port} --io-threads 2'
  roundhouse ab OLD NEW line://{address} --request 'get 1' --fail-if 'new cpu > 1.05x old'")]
pub struct Args {
    /// The server to compare with: a command, whose `{port}` is replaced by a free port, or the
    /// address or the URL of a server that runs on this machine. A command without `{port}` must
    /// print `{"listening": "HOST:PORT"}` first
    old: String,
    /// The server in question, in the same form
    new: String,
    /// How to ask: a path of HTTP servers, or SCHEME://{address}/PATH as for `roundhouse load`
    /// [default: the servers are asked for their protocol]
    url: Option<String>,
    /// The request for a target line://, with escapes \r \n \t \0 \xHH
    #[arg(long, value_name = "TEXT")]
    request: Option<String>,
    /// Further flags of `roundhouse load`, such as "-H 'Accept: text/html'"
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    load: Option<String>,
    /// Connections to each server
    #[arg(long, value_name = "N", default_value_t = 8)]
    connections: u32,
    /// Requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: u32,
    /// Servers closer together than this are equivalent, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    margin: f64,
    /// The time after which no block begins, once there are six
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "30s")]
    budget: Duration,
    /// Blocks in place of a budget
    #[arg(long, value_name = "N", conflicts_with = "budget")]
    blocks: Option<u32>,
    /// Length of a measured window [default: 40ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    window: Option<Duration>,
    /// Orders and requests come from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    conduct: Conduct,
}

/// Races the two servers. Exit codes as of `race`.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(code) = args.conduct.machines.elsewhere("--out", Some(&args.conduct.out))? {
        return Ok(code);
    }
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    match plan(args, &exe) {
        Ok(plan) => {
            let foreign = Foreign {
                arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
                advice: "Give the protocol as a URL, such as line://{address} with --request",
            };
            conduct(&plan, &args.conduct, &exe, foreign)
        }
        Err(why) => Ok(usage("ab", &why)),
    }
}

fn plan(args: &Args, exe: &Path) -> Result<Plan> {
    let files = vec![book(None)?, Service::page(None)?];
    let mut arms = Vec::new();
    for (name, text) in [("old", &args.old), ("new", &args.new)] {
        let arm =
            arm(args, exe, &files, name, text).with_context(|| format!("{name}: `{text}`"))?;
        arms.push(arm);
    }
    let is_ours = [&args.old, &args.new].iter().all(|text| is_command(text));
    if args.conduct.explain && !is_ours {
        bail!("--explain starts the servers once more: give their commands in place of addresses");
    }
    let point = LoadPoint {
        name: format!("depth {}", args.depth),
        connections: args.connections,
        depth: args.depth,
        mix: Service::Stock.mix().unwrap_or_default().to_string(),
        ..LoadPoint::default()
    };
    let turns = Turns {
        windows: WINDOWS,
        silent: if is_ours { SILENT } else { 0 },
        budget_ms: Some(args.budget.as_millis() as u64),
    };
    let plan = PlanFile::default().duet(arms, point);
    let mut plan = Plan {
        question: "Does a request cost more on the new server than on the old one?".to_string(),
        // A server that runs already cannot be its own twin.
        twin: is_command(&args.old),
        files,
        blocks: BLOCKS,
        label: Plan::label_for(BLOCKS).to_string(),
        margin: args.margin / 100.0,
        metrics: vec![Metric::Throughput, Metric::Cpu, Metric::P50],
        turns,
        ..plan
    };
    let sizes = Adjustments {
        blocks: args.blocks,
        window: args.window,
        seed: Some(args.seed),
        ..Adjustments::default()
    };
    sizes.apply(&mut plan)?;
    Ok(plan)
}

/// The server at one side. A command is started once, to be asked for its protocol.
fn arm(args: &Args, exe: &Path, files: &[Provision], name: &str, text: &str) -> Result<Arm> {
    let own_url = is_url(text).then_some(text);
    let address = match own_url {
        Some(url) => Some(address_of(url)?),
        None => running(text),
    };
    let command = match address {
        Some(address) => {
            is_here(address)?;
            attach::owner(address)?;
            let words = [&exe.display().to_string(), "attach", &address.to_string()];
            words.map(String::from).to_vec()
        }
        None => split(text).map_err(|why| anyhow!(why))?,
    };
    let mut arm = Arm { name: name.to_string(), command, ..Arm::default() };
    match args.url.as_deref().or(own_url) {
        Some(url) if !url.starts_with('/') => arm.target = target(url)?,
        path => {
            let Protocol { name: spoken, target, load } = asked(&arm, files)?;
            info!("{name} speaks {spoken}");
            if !args.load.iter().any(|flags| flags.contains("--cacert")) {
                arm.load.extend(load.iter().map(ToString::to_string));
            }
            arm.target = match path {
                Some(path) if target.starts_with("http") => {
                    format!("{}{path}", target.trim_end_matches('/'))
                }
                Some(path) => bail!("expected an HTTP server for the path {path}, found {spoken}"),
                None => target.to_string(),
            };
        }
    }
    arm.load.extend(args.request.iter().flat_map(|text| ["--request".to_string(), text.clone()]));
    arm.load.extend(split(args.load.as_deref().unwrap_or_default()).map_err(|why| anyhow!(why))?);
    Ok(arm)
}

/// The address, if the text is one and no command.
fn running(text: &str) -> Option<SocketAddr> {
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !has_port || text.contains([' ', '/']) {
        return None;
    }
    sys::resolve::server(text).ok()
}

/// Whether the text is a command, and names no server that runs already.
fn is_command(text: &str) -> bool {
    !is_url(text) && running(text).is_none()
}

/// Whether the text is the URL of a server that runs, and no command.
fn is_url(text: &str) -> bool {
    text.contains("://") && !text.contains([' ', '{'])
}

/// The address of the server at a URL.
fn address_of(url: &str) -> Result<SocketAddr> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let place = match (has_port, scheme) {
        (true, _) => authority.to_string(),
        (false, "http") => format!("{authority}:80"),
        (false, "https") => format!("{authority}:443"),
        (false, _) => bail!("expected SCHEME://HOST:PORT, found `{url}`; name its port"),
    };
    sys::resolve::server(&place).with_context(|| format!("cannot find the server of {url}"))
}

/// Refuses the address of another machine, where no process can be watched.
fn is_here(address: SocketAddr) -> Result<()> {
    match std::net::UdpSocket::bind((address.ip(), 0)) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => bail!(
            "expected a server on this machine, found {address}: ab reads the CPU time of its \
             process; run ab there, or start both by command with --servers-on ssh://HOST"
        ),
        _ => Ok(()),
    }
}

/// The generator's target of a URL: each server puts its own address into it.
fn target(url: &str) -> Result<String> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| anyhow!("expected /PATH or SCHEME://{{address}}/PATH, found `{url}`"))?;
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    Ok(format!("{scheme}://{{address}}{path}"))
}

fn asked(arm: &Arm, files: &[Provision]) -> Result<Protocol> {
    let room = room("roundhouse-ab")?;
    let arm = Arm { files: files.to_vec(), ..arm.clone() };
    let server =
        Server::boot(&[], &arm, room.path(), "server", READY).map_err(|why| anyhow!(why))?;
    let found = probe::protocol(&server.address).map_err(|why| anyhow!(why));
    server.process.stop(READY);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_command() {
        let found = |text: &str| running(text).map(|it| it.port());
        assert_eq!((found("127.0.0.1:80"), found("[::1]:81")), (Some(80), Some(81)));
        for command in ["./server", "server --port {port}", "a:b", "./run:80"] {
            assert_eq!(found(command), None, "{command}");
        }
    }

    #[test]
    fn a_url_is_a_server_that_runs() {
        let port = |url: &str| address_of(url).map(|it| it.port());
        assert!(matches!(port("http://127.0.0.1:8081/a"), Ok(8081)));
        assert!(matches!(port("http://127.0.0.1"), Ok(80)));
        assert!(matches!(port("https://[::1]/x?y=http://a:1/"), Ok(443)));
        assert!(port("line://127.0.0.1").is_err_and(|it| it.to_string().contains("name its port")));
        assert!(is_url("http://a/") && !is_url("./a --url http://a/") && !is_url("x://{address}"));
        assert!(is_here(SocketAddr::from(([127, 0, 0, 1], 80))).is_ok());
        // TEST-NET-1 (RFC 5737) is nobody's.
        let why = is_here(SocketAddr::from(([192, 0, 2, 1], 80))).expect_err("elsewhere");
        assert!(why.to_string().contains("--servers-on"), "{why}");
    }

    #[test]
    fn each_server_has_its_address_in_the_target() {
        fn check(url: &str, want: &str) {
            assert_eq!(target(url).expect("a URL"), want);
        }
        check("http://{address}/a?b=c", "http://{address}/a?b=c");
        check("http://localhost:8080/a", "http://{address}/a");
        check("line://x", "line://{address}");
        assert!(target("index.html").is_err());
    }
}
