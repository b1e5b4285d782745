//! `roundhouse ab`: an old and a new server, and whether a request costs more on the new one. It is
//! a race in turns of two servers, whose protocol is found out.
//!
//! Each side is a command, an address or a URL; with `--git` both are one command in the folders of
//! two commits (`checkout.rs`). A command is started in every block, and, if no URL names its
//! protocol, once before the race to find it out (`probe`). A running server becomes an arm through
//! `roundhouse attach`, which finds its process, so its CPU time can be read; it cannot be
//! restarted, so it has no twin and no idle connections. The two arms become a plan of duets, and
//! `race::conduct` runs it like any other race.

use super::checkout::Checkouts;
use super::{Conduct, Foreign, conduct};
use crate::attach;
use anyhow::{Context, Result, anyhow, bail};
use checkup::Spoken;
use lab::command::split;
use lab::draft::Adjustments;
use lab::file::PlanFile;
use lab::metric::Metric;
use lab::plan::{Arm, LoadPoint, Plan, Provision, Turns};
use lab::probe::{self, Protocol};
use lab::server::{LOCALHOST, Server};
use lab::service::Service;
use language::info;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use tools::race::{book, room};
use tools::usage;
use wire::conf::span;

/// The most blocks; the answer or the budget ends the race earlier.
const BLOCKS: u32 = 200;
/// Windows on each server of a block: enough for a fresh process to pay for its start.
const WINDOWS: u32 = 5;
/// Silent connections to each server that is started here.
const SILENT: u32 = 100;
/// The metrics of the comparison; a percentile only where the windows hold enough requests for it.
const METRICS: [Metric; 5] =
    [Metric::Throughput, Metric::Cpu, Metric::P50, Metric::P99, Metric::Memory];
/// The time in which a server ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time after which a start is slow.
const SLOW: Duration = Duration::from_secs(3);

/// The arguments of `ab`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  roundhouse ab ./server-1.0 ./server-1.1        each prints {\"listening\": \"HOST:PORT\"}
  roundhouse ab http://127.0.0.1:8080/index.html http://127.0.0.1:8081/index.html
  roundhouse ab 'redis-server --port {port}' 'redis-server --port {port} --io-threads 2'
  roundhouse ab './server {port}' 'WORKERS=4 ./server {port}'
  roundhouse ab --git main..HEAD --build make './server --port {port}'
  roundhouse ab OLD NEW grpc://{address}/PACKAGE.SERVICE/METHOD --load '--body-file message'
  roundhouse ab OLD NEW line://{address} --request 'get 1' --fail-if 'new cpu > 1.05x old'")]
pub struct Args {
    /// The server to compare with: a command, whose `{port}` is replaced by a free port, or the
    /// address or the URL of a server that runs on this machine. A command without `{port}` listens
    /// on the port of $PORT, or prints `{"listening": "HOST:PORT"}` first. Words NAME=VALUE before
    /// it set its environment
    old: String,
    /// The server in question, in the same form; with --git the same command, unless it is given
    #[arg(required_unless_present = "git")]
    new: Option<String>,
    /// How to ask: a path of HTTP servers, or SCHEME://{address}/PATH as for `roundhouse load`
    /// [default: detected from the reply of each server]
    url: Option<String>,
    /// The request for a target line://, with escapes \r \n \t \0 \xHH
    #[arg(long, value_name = "TEXT")]
    request: Option<String>,
    /// Further flags of `roundhouse load`, such as "-H 'Accept: text/html'"
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    load: Option<String>,
    /// The status of HTTP that each reply must have [default: 200 to 399]
    #[arg(long, value_name = "CODE")]
    expect_status: Option<u16>,
    /// Compare two commits, such as main..HEAD or main...HEAD (from where HEAD left main); one
    /// commit is compared with the present folder as it is
    #[arg(long, value_name = "RANGE", conflicts_with_all = ["old_dir", "new_dir"])]
    git: Option<String>,
    /// The command that builds a side of --git, in its folder
    #[arg(long, value_name = "COMMAND", requires = "git")]
    build: Option<String>,
    /// The folder in which the old server is started
    #[arg(long, value_name = "DIR")]
    old_dir: Option<PathBuf>,
    /// The folder in which the new server is started
    #[arg(long, value_name = "DIR")]
    new_dir: Option<PathBuf>,
    /// The time that each server may take to start
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "60s")]
    boot: Duration,
    /// Do not measure the memory of idle connections
    #[arg(long)]
    no_idle: bool,
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
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    // Ctrl-C ends a build, and the folders of both commits go.
    let _ends = args.git.as_ref().map(|_| tools::interrupt::watch()).transpose()?;
    let checkouts = args.git.as_deref().map(|range| {
        let checkouts = Checkouts::of(range)?;
        args.build.iter().try_for_each(|command| checkouts.build(command))?;
        anyhow::Ok(checkouts)
    });
    let checkouts = checkouts.transpose().map_err(usage)?;
    let plan = plan(args, &exe, checkouts.as_ref()).map_err(usage)?;
    let foreign = Foreign {
        arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
        advice: "Give the protocol as a URL, such as line://{address} with --request or \
                 grpc://{address}/PACKAGE.SERVICE/METHOD, and flags of `roundhouse load` as \
                 --load '--requests-per-connection 64'",
    };
    conduct(&plan, &args.conduct, &exe, foreign)
}

struct Side<'a> {
    name: &'static str,
    text: &'a str,
    folder: Option<PathBuf>,
    note: String,
}

impl Args {
    /// Both sides, and how to ask. With one command for both sides its second word may be the URL.
    fn sides(&self, checkouts: Option<&Checkouts>) -> Result<([Side<'_>; 2], Option<&str>)> {
        let is_how = |text: &&str| text.starts_with('/') || text.contains("://{");
        let (new, url) = match (self.new.as_deref(), self.url.as_deref()) {
            (Some(how), None) if self.git.is_some() && is_how(&how) => (None, Some(how)),
            both => both,
        };
        let texts = [self.old.as_str(), new.unwrap_or(&self.old)];
        let side = |at: usize| -> Result<Side<'_>> {
            let given = [&self.old_dir, &self.new_dir][at].as_ref();
            let given = given.map(|folder| {
                folder.canonicalize().with_context(|| format!("cannot enter {}", folder.display()))
            });
            let ours = checkouts.map(|both| &both.sides[at]);
            Ok(Side {
                name: ["old", "new"][at],
                text: texts[at],
                folder: given.transpose()?.or_else(|| ours.map(|side| side.folder.clone())),
                note: ours.map(|side| side.title.clone()).unwrap_or_default(),
            })
        };
        Ok(([side(0)?, side(1)?], url))
    }
}

fn plan(args: &Args, exe: &Path, checkouts: Option<&Checkouts>) -> Result<Plan> {
    let files = vec![book(None)?, Service::page(None)?];
    let (sides, url) = args.sides(checkouts)?;
    let is_ours = sides.iter().all(|side| is_command(side.text));
    if (args.conduct.explain || args.git.is_some()) && !is_ours {
        bail!("--explain and --git start the servers: give commands in place of addresses");
    }
    let mut arms = Vec::new();
    for side in &sides {
        let what = || format!("{}: `{}`", side.name, side.text);
        arms.push(arm(args, exe, &files, side, url).with_context(what)?);
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
        silent: if is_ours && !args.no_idle { SILENT } else { 0 },
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
        metrics: METRICS.to_vec(),
        turns,
        ..plan
    };
    let sizes = Adjustments {
        blocks: args.blocks,
        window: args.window,
        seed: Some(args.seed),
        boot: Some(args.boot),
        ..Adjustments::default()
    };
    sizes.apply(&mut plan)?;
    Ok(plan)
}

/// The server at one side. A command is started once, to be asked for its protocol.
fn arm(
    args: &Args,
    exe: &Path,
    files: &[Provision],
    side: &Side<'_>,
    how: Option<&str>,
) -> Result<Arm> {
    let (name, text) = (side.name, side.text);
    let own_url = is_url(text).then_some(text);
    let address = match own_url {
        Some(url) => Some(address_of(url)?),
        None => running(text),
    };
    let (environment, command) = match address {
        Some(address) => {
            is_here(address)?;
            attach::owner(address)?;
            let words = [&exe.display().to_string(), "attach", &address.to_string()];
            (BTreeMap::new(), words.map(String::from).to_vec())
        }
        None => assigned(split(text).map_err(|why| anyhow!(why))?),
    };
    let (folder, note) = (side.folder.clone(), side.note.clone());
    let mut arm =
        Arm { name: name.to_string(), command, environment, folder, note, ..Arm::default() };
    match how.or(own_url) {
        Some(url) if !url.starts_with('/') => arm.target = target(url)?,
        path => {
            let Protocol { name: spoken, target, load, is_bare } = asked(&arm, files, args.boot)?;
            info!("{name} speaks {spoken}");
            let checks = args.load.iter().any(|flags| flags.contains("--cacert"));
            let flags = load.iter().filter(|flag| !(checks && **flag == "--insecure"));
            arm.load.extend(flags.map(ToString::to_string));
            arm.target = match path {
                Some(path) if target.starts_with("http") => {
                    format!("{}{path}", target.trim_end_matches('/'))
                }
                Some(path) => bail!("expected an HTTP server for the path {path}, found {spoken}"),
                None if is_bare => bail!(
                    "{name} has no page at `/` (404); name a path as the last argument, such as \
                     /index.html"
                ),
                None => target.to_string(),
            };
        }
    }
    arm.load.extend(args.request.iter().flat_map(|text| ["--request".to_string(), text.clone()]));
    let status = args.expect_status.iter();
    arm.load.extend(status.flat_map(|code| ["--expect-status".to_string(), code.to_string()]));
    arm.load.extend(split(args.load.as_deref().unwrap_or_default()).map_err(|why| anyhow!(why))?);
    Ok(arm)
}

/// The leading words NAME=VALUE, as a shell takes them, and the command after them.
pub(crate) fn assigned(words: Vec<String>) -> (BTreeMap<String, String>, Vec<String>) {
    let is_name = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let both = |word: &String| {
        let (name, value) = word.split_once('=').filter(|(name, _)| is_name(name))?;
        Some((name.to_string(), value.to_string()))
    };
    let environment: Vec<(String, String)> = words.iter().map_while(both).collect();
    let command = words[environment.len()..].to_vec();
    (environment.into_iter().collect(), command)
}

/// The address, if the text is one and no command.
pub(crate) fn running(text: &str) -> Option<SocketAddr> {
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
pub(crate) fn is_url(text: &str) -> bool {
    text.contains("://") && !text.contains([' ', '{'])
}

pub(crate) fn address_of(url: &str) -> Result<SocketAddr> {
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
pub(crate) fn is_here(address: SocketAddr) -> Result<()> {
    match std::net::UdpSocket::bind((address.ip(), 0)) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => bail!(
            "expected a server on this machine, found {address}: ab reads the CPU time of its \
             process; run ab there, with --load-from ssh://HOST for a load from here"
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

/// Starts the arm once and finds out which protocol it speaks.
pub(super) fn asked(arm: &Arm, files: &[Provision], boot: Duration) -> Result<Protocol> {
    let room = room("roundhouse-ab")?;
    let arm = Arm { files: files.to_vec(), ..arm.clone() };
    let (started, waiting) = mpsc::channel::<()>();
    let name = arm.name.clone();
    std::thread::spawn(move || {
        if waiting.recv_timeout(SLOW) == Err(mpsc::RecvTimeoutError::Timeout) {
            info!("{name} does not listen yet; it has {:.0} s (--boot)", boot.as_secs_f64());
        }
    });
    let server = Server::boot((LOCALHOST, 0), &[], &arm, room.path(), "server", boot);
    drop(started);
    let server = server.map_err(|why| anyhow!(why))?;
    let found = probe::protocol(&server.address).map_err(|why| anyhow!(why));
    let found = found.and_then(|found| newer(&arm.name, &server.address, found));
    server.process.stop(PATIENCE);
    found
}

/// The protocol, asked more closely where it may be HTTP/2 alone.
fn newer(name: &str, address: &str, found: Protocol) -> Result<Protocol> {
    let has_tls = found.target.starts_with("https");
    if !has_tls && !found.load.contains(&"--http2") {
        return Ok(found);
    }
    let spoken = checkup::spoken(sys::resolve::server(address)?).map_err(|why| anyhow!(why))?;
    match spoken {
        Spoken::Grpc => bail!(
            "{name} speaks gRPC alone: name a method, such as \
             grpc://{{address}}/PACKAGE.SERVICE/METHOD, and its message by --load '--body-file FILE'"
        ),
        Spoken::Http2 if has_tls => Ok(Protocol {
            name: "HTTP/2 alone, by ALPN; its certificate is not checked",
            load: &["--insecure", "--http2"],
            ..found
        }),
        Spoken::Http1 | Spoken::Http2 => Ok(found),
    }
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
    fn words_before_a_command_are_its_environment() {
        let found = |text: &str| {
            let (environment, command) = assigned(split(text).expect("words"));
            (environment.into_iter().collect::<Vec<_>>(), command.join(" "))
        };
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(
            found("A=1 b_2='x y' ./srv C=3"),
            (vec![pair("A", "1"), pair("b_2", "x y")], "./srv C=3".into())
        );
        assert_eq!(found("./srv A=1").0, []);
        assert_eq!(found("--x=1 srv").0, []);
    }

    #[test]
    fn one_command_is_that_of_both_commits() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let check = |words: &[&str], want: [&str; 2], how: Option<&str>| {
            let line = <Line as clap::Parser>::try_parse_from([&["ab"], words].concat());
            let args = line.expect("arguments of ab").args;
            let (sides, url) = args.sides(None).expect("two sides");
            assert_eq!((sides.map(|side| side.text), url), (want, how), "{words:?}");
        };
        check(&["a", "b", "/x"], ["a", "b"], Some("/x"));
        check(&["--git", "main", "a"], ["a", "a"], None);
        check(&["--git", "main", "a", "/x"], ["a", "a"], Some("/x"));
        check(
            &["--git", "main", "a", "b", "line://{address}"],
            ["a", "b"],
            Some("line://{address}"),
        );
        let alone = <Line as clap::Parser>::try_parse_from(["ab", "a"]);
        assert!(alone.is_err());
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
        assert!(why.to_string().contains("--load-from"), "{why}");
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
