//! The flags of `load`, in groups.
//!
//! One struct per group of flags, each with its heading in the help; a doc comment is the text of
//! the flag and is translated from the catalogue. Short letters are those of wrk, wrk2 and oha. The
//! parser refuses combinations that exclude each other (`conflicts_with`); what depends on a value
//! or on a file is checked in `plan.rs`. `--turns` parses this struct once more for each of its
//! servers.

use super::flow::FlowArgs;
use ::load::Stages;
use ::load::parse::rate;
use ::load::slo::Slo;
use ::load::work::Think;
use meter::counters::CounterPlace;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use wire::conf::span;
use wire::framing::Framing;

/// The arguments of `load`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    roundhouse load http://127.0.0.1:8080/ -c 64 -d 10s    as fast as possible, like wrk
    roundhouse load http://127.0.0.1:8080/ --open 5000     5000 a second, however slow the server
  roundhouse load https://localhost:8443/ --cacert ca.pem --har page.har
  roundhouse load http://127.0.0.1:8080/ --flow users.toml -c 50 --think 1s
  roundhouse load http://127.0.0.1:8080/ --find-capacity --slo 'p99 < 5ms'
  roundhouse load line://127.0.0.1:6379 --request 'INCR x\\r\\n' --expect-prefix :
  roundhouse load stock://127.0.0.1 --sessions 200
  roundhouse load stock://a:6001,b:6001 --receipts receipts    goes on when a node dies

Exit codes: 0 all replies were right; 1 replies were wrong or missing; 2 wrong usage; 98 the \
measurement is invalid, because the generator could not keep up; 99 the objective was missed.\n\
The flags -c -t -d -n -q -z -R -H -m have the meaning that they have in wrk, wrk2 and oha.")]
pub struct Args {
    /// The server: stock://HOST[:PORT], http://HOST[:PORT]/PATH, https://HOST[:PORT]/PATH,
    /// echo://HOST[:PORT], or line://HOST:PORT for any line protocol, and over TLS stock+tls://,
    /// echo+tls:// or line+tls://, in messages of a WebSocket +ws:// or +wss:// instead of +tls://
    #[arg(value_name = "TARGET")]
    #[arg(required_unless_present_any = ["schema", "turns"])]
    pub places: Vec<String>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub span: SpanArgs,
    #[command(flatten)]
    pub links: LinkArgs,
    /// Threads of the generator, each with its share of connections and arrivals
    #[arg(long, short = 't', default_value_t = 1, value_name = "N", help_heading = "Generator")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Seed of random requests, arrivals and pauses
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Generator")]
    #[arg(hide_short_help = true)]
    pub seed: u64,
    /// Run on this processor only
    #[arg(long, value_name = "N", help_heading = "Generator", hide_short_help = true)]
    pub cpu: Option<usize>,
    /// Report CPU time, context switches and memory of the process tree with this root
    #[arg(long, value_name = "PID", help_heading = "Output", hide_short_help = true)]
    pub watch: Option<u32>,
    /// Take the CPU time of --turns from the control group with this folder, which holds that tree
    /// and nothing else
    #[arg(long, value_name = "FOLDER", help_heading = "Output", requires = "watch")]
    #[arg(hide_short_help = true)]
    pub watch_group: Option<PathBuf>,
    /// Ask the counter server at this place, because the watched server is on another machine
    #[arg(long, value_name = "ADDRESS:PORT/TOKEN", hide = true, requires = "watch")]
    pub watch_at: Option<CounterPlace>,
    /// Report each kind of request separately
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub kinds: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Weights of the requests: show=5,buy=50,sell=45 for stock://, or /=90,/big=10 for http://
    #[arg(long, value_name = "MIX", help_heading = "Targets")]
    pub mix: Option<String>,
    #[command(flatten)]
    pub stock: StockArgs,
    #[command(flatten)]
    pub http: HttpArgs,
    #[command(flatten)]
    pub flow: FlowArgs,
    #[command(flatten)]
    pub line: LineArgs,
    #[command(flatten)]
    pub echo: EchoArgs,
    #[command(flatten)]
    pub turns: TurnsArgs,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// When requests are sent.
#[derive(clap::Args)]
#[command(next_help_heading = "Models")]
pub struct ModelArgs {
    /// Closed loop: this many users, each with one connection, who wait for replies before the next
    /// request. With --open or --sessions: the most connections [default: 64; sessions: 1000]
    #[arg(long, short = 'c', visible_alias = "connections", value_name = "N")]
    pub closed: Option<usize>,
    /// Open loop: this many requests a second, however slow the server is
    #[arg(long, short = 'q', short_alias = 'R', value_name = "RATE", value_parser = rate)]
    #[arg(conflicts_with = "sessions", allow_hyphen_values = true)]
    pub open: Option<f64>,
    /// Partly open: this many sessions a second, each with its own connection
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub sessions: Option<f64>,
    /// Batches of requests in a session
    #[arg(long, default_value_t = 10, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(hide_short_help = true)]
    pub session_requests: u64,
    /// How requests or sessions arrive
    #[arg(long, default_value = "poisson", value_name = "poisson|constant")]
    pub arrivals: ArrivalsArg,
    /// Closed loop: requests in one write. Open loop: the most outstanding requests of a connection
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub depth: u32,
    /// Think time of a user after the replies: 100ms, exp:100ms (mean), 50ms..150ms
    #[arg(long, default_value = "0s", value_name = "DIST")]
    pub think: Think,
    /// Users start at this rate, before the measurement [default: all at once]
    #[arg(long, value_name = "RATE", value_parser = rate, hide_short_help = true)]
    pub ramp: Option<f64>,
    /// A load that goes up, holds and comes down, measured from its begin: TIME:USERS, or
    /// TIME:RATE/s, such as 30s:100,2m:100,30s:0; with --flow the rate is one of sessions
    #[arg(long, visible_alias = "stage", value_name = "TIME:LEVEL,…", conflicts_with_all = [
        "open", "sessions", "ramp", "span", "count", "warmup", "guests", "find_capacity", "turns",
        "in_flight", "connect_apart",
    ])]
    pub stages: Option<Stages>,
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ArrivalsArg {
    /// Independent of each other
    Poisson,
    /// At equal intervals
    Constant,
}

/// How long.
#[derive(clap::Args)]
#[command(next_help_heading = "Length")]
pub struct SpanArgs {
    /// How long to measure [default: 1s]
    #[arg(long = "for", short = 'd', short_alias = 'z', value_parser = span, value_name = "TIME")]
    pub span: Option<Duration>,
    /// Measure exactly this many requests
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "span")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Length of the load before the measurement [default: 300ms after the ramp; with --count none]
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub warmup: Option<Duration>,
    /// How long to wait for the last replies, and with --receipts for any [default: 5s; with
    /// --receipts 60s]
    #[arg(long, value_parser = span, value_name = "TIME", hide_short_help = true)]
    pub drain: Option<Duration>,
}

/// How connections are used.
#[derive(clap::Args)]
#[command(next_help_heading = "Connections")]
pub struct LinkArgs {
    /// Replace each connection after this many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests_per_connection: Option<u64>,
    /// Keep this many more connections that send no requests
    #[arg(long, default_value_t = 0, value_name = "N", hide_short_help = true)]
    pub idle: usize,
    /// Connect from these local addresses in turn, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "IP", hide_short_help = true)]
    pub source: Vec<IpAddr>,
    /// Connect to this socket in the file system; the target's host is only the name that the
    /// server sees
    #[arg(long, value_name = "PATH", conflicts_with_all = ["source", "connect_to"])]
    #[arg(hide_short_help = true)]
    pub unix: Option<PathBuf>,
    /// Connect to this place; the target's host is only the name that the server sees
    #[arg(long, value_name = "HOST:PORT", hide_short_help = true)]
    pub connect_to: Option<String>,
    /// Go through this proxy: by a tunnel (CONNECT) with TLS, else with whole URLs in HTTP/1.1
    #[arg(long, value_name = "[USER:PASSWORD@]HOST:PORT", hide_short_help = true)]
    #[arg(conflicts_with_all = ["unix", "connect_to"])]
    pub proxy: Option<String>,
    /// Abandon a connection on which no reply arrives for this long
    #[arg(long, default_value = "30s", value_parser = span, value_name = "TIME")]
    pub timeout: Duration,
    /// The most outstanding or waiting arrivals; one more counts as failed
    #[arg(long, default_value_t = 10_000, value_name = "N", hide_short_help = true)]
    pub max_outstanding: usize,
    /// Believe the certificates in this file (PEM) in place of the system's, for TLS
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate, for TLS; the report says so
    #[arg(long, conflicts_with = "cacert")]
    pub insecure: bool,
    /// This client's certificate (PEM), for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key", hide_short_help = true)]
    pub cert: Option<PathBuf>,
    /// The key (PEM) of --cert
    #[arg(long, value_name = "FILE", requires = "cert", hide_short_help = true)]
    pub key: Option<PathBuf>,
    /// Resume no session: each TLS handshake is a full one
    #[arg(long, hide_short_help = true)]
    pub no_resume: bool,
    /// Spin before an arrival, and in a closed loop before sleeping for replies [default: 60us;
    /// closed: 0s, always sleep]
    #[arg(long, value_parser = span, value_name = "TIME", help_heading = "Generator")]
    #[arg(hide_short_help = true)]
    pub spin: Option<Duration>,
}

/// Output.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Only print the JSON Schema of that document
    #[arg(long, hide_short_help = true)]
    pub schema: bool,
    /// Print plain lines of progress instead of the live view, also without a terminal
    #[arg(long, visible_alias = "no-live")]
    pub plain: bool,
    /// Write every request to FILE, in the columns of k6's CSV output; for http://
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_ONE_RUN, hide_short_help = true)]
    pub requests_csv: Option<PathBuf>,
    /// Answer Prometheus at http://ADDRESS:PORT/metrics during the run
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = NOT_ONE_RUN)]
    #[arg(hide_short_help = true)]
    pub prometheus: Option<SocketAddr>,
    /// Send the counts during the run to this collector of OpenTelemetry (OTLP over HTTP)
    #[arg(long, value_name = "http://HOST:4318", conflicts_with_all = NOT_ONE_RUN)]
    #[arg(hide_short_help = true)]
    pub otlp: Option<String>,
}

impl OutputArgs {
    /// Whether a flag has no place among several runs.
    pub fn is_of_one_run(&self) -> bool {
        self.requests_csv.is_some() || self.prometheus.is_some() || self.otlp.is_some()
    }
}

/// Flags that make more than one run.
const NOT_ONE_RUN: [&str; 2] = ["turns", "find_capacity"];

/// Objectives.
#[derive(clap::Args)]
#[command(next_help_heading = "Objectives")]
pub struct GoalArgs {
    /// Objectives, such as 'p99 < 5ms' or 'mean < 1ms, rate > 10k/s, errors < 0.1%', of p50 to
    /// p99.99, mean, max, rate and errors; exit code 99 if one is missed
    #[arg(long, value_name = "SLO")]
    pub slo: Option<Slo>,
    /// Find the highest open rate at which --slo holds
    #[arg(long, requires = "slo", conflicts_with_all = ["count", "sessions", "turns"])]
    pub find_capacity: bool,
}

/// Orders for `stock://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets stock://")]
pub struct StockArgs {
    /// Ids of the stocks to trade, separated by commas [default: all that the server shows]
    #[arg(long, value_delimiter = ',', value_name = "IDS", hide_short_help = true)]
    pub ids: Vec<String>,
    /// Trade 1 to this many shares at a time
    #[arg(long, default_value_t = 10, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    #[arg(hide_short_help = true)]
    pub amount_max: u32,
    /// How replies end: line, fixed:8192, eof or length
    #[arg(long, default_value = "line", value_name = "FRAMING")]
    pub framing: Framing,
    /// Give each order a number, send it again under that number when a connection is lost, at the
    /// next node of stock://HOST:PORT,HOST:PORT, and write receipts to FILE for `roundhouse check`
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_ONE_RUN)]
    pub receipts: Option<PathBuf>,
    /// Take replies that differ in case, spaces, empty lines or a missing newline as right
    #[arg(long, hide_short_help = true)]
    pub lenient: bool,
}

/// Requests for `http://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets http://")]
pub struct HttpArgs {
    /// Speak HTTP/2: over TLS by ALPN, with http:// by prior knowledge (h2c); --depth is the number
    /// of streams at once
    #[arg(long, conflicts_with = "malformed")]
    pub http2: bool,
    /// The method of requests that name none
    #[arg(long, short = 'm', default_value = "GET", value_name = "METHOD")]
    pub method: String,
    /// A header field, such as 'Accept: text/html'; may be repeated
    #[arg(long, short = 'H', value_name = "FIELD")]
    pub header: Vec<String>,
    /// Name and password in each request (Basic), or a file whose first line they are
    #[arg(long, value_name = "NAME:PASSWORD|@FILE", hide_short_help = true)]
    pub user: Option<String>,
    /// The body of each request, with escapes \r \n \t \0 \xHH
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// The file with the body of each request; with grpc:// it is the message
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub body_file: Option<PathBuf>,
    /// Descriptor set of a grpc:// service and what it imports, as `protoc --include_imports
    /// --descriptor_set_out=FILE` writes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "body_file"])]
    #[arg(hide_short_help = true)]
    pub descriptor: Option<PathBuf>,
    /// The message of --descriptor in the JSON of protobuf, or a file of it [default: empty]
    #[arg(long, value_name = "JSON|@FILE", requires = "descriptor", hide_short_help = true)]
    pub data: Option<String>,
    /// A file with a request in each line: [METHOD] URL|PATH [WEIGHT]. URLs have the target's
    /// origin; requests are drawn by their weights
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mix", "har"], hide_short_help = true)]
    pub urls: Option<PathBuf>,
    /// A browser's recording (HAR): each connection sends its requests to the target in their
    /// order, again and again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mix", "body", "body_file"])]
    pub har: Option<PathBuf>,
    /// Also send the cookies of --har
    #[arg(long, requires = "har", hide_short_help = true)]
    pub har_cookies: bool,
    /// The status of a right reply [default: 200 to 399; 0 with grpc://]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=599))]
    #[arg(hide_short_help = true)]
    pub expect_status: Option<u16>,
    /// Take replies with an incomplete head, or a body shorter than announced, as right, and count
    /// them
    #[arg(long, hide_short_help = true)]
    pub malformed: bool,
    /// The length of a right reply's body [default: what its head announces]
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub expect_length: Option<u64>,
}

/// Requests for `line://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets line://")]
pub struct LineArgs {
    /// The request, with escapes \r \n \t \0 \xHH; a missing newline is added
    #[arg(long, value_name = "TEXT")]
    pub request: Option<String>,
    /// A file of requests, one a line, with the same escapes; connections send them in turn
    #[arg(long, value_name = "FILE", conflicts_with = "request", hide_short_help = true)]
    pub request_file: Option<PathBuf>,
    /// The end of a reply
    #[arg(long, default_value = "\\n", value_name = "TEXT", hide_short_help = true)]
    pub terminator: String,
    /// Number of terminators in a reply: 2 for a redis server's GET
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(hide_short_help = true)]
    pub terminators: u32,
    /// The beginning of a right reply [default: anything]
    #[arg(long, value_name = "TEXT")]
    pub expect_prefix: Option<String>,
}

/// A window of packets on each connection; for `echo://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets echo://")]
pub struct EchoArgs {
    /// Outstanding packets of each connection, refilled as echoes arrive [default: batches of
    /// --depth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    #[arg(conflicts_with_all = ["open", "sessions", "depth", "think"])]
    #[arg(hide_short_help = true)]
    pub in_flight: Option<u32>,
    /// The shortest pause between two sends on a connection, with --in-flight
    #[arg(long, value_parser = span, value_name = "TIME", requires = "in_flight")]
    #[arg(hide_short_help = true)]
    pub send_delay: Option<Duration>,
    /// Each thread replaces its oldest connection at this interval, with --in-flight
    #[arg(long, value_parser = reconnect, value_name = "TIME", requires = "in_flight")]
    #[arg(hide_short_help = true)]
    pub reconnect: Option<Duration>,
}

/// The shortest life of a connection.
const RECONNECT_MIN: Duration = Duration::from_millis(1);

fn reconnect(text: &str) -> Result<Duration, String> {
    let interval = span(text)?;
    match interval < RECONNECT_MIN {
        true => Err(format!("expected {RECONNECT_MIN:?} or more, found {interval:?}")),
        false => Ok(interval),
    }
}

/// Servers in turn.
#[derive(clap::Args)]
#[command(next_help_heading = "Turns")]
pub struct TurnsArgs {
    /// Let servers take turns in short windows, and report the CPU per request of each: a JSON list
    /// with one list of this command's arguments for each server, its target and --watch among them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["places", "watch", "threads"])]
    #[arg(hide_short_help = true)]
    pub turns: Option<PathBuf>,
    /// Windows on each server
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(hide_short_help = true)]
    pub windows: u32,
    /// Length of a window of --turns
    #[arg(long, default_value = "40ms", value_parser = span, value_name = "TIME")]
    #[arg(hide_short_help = true)]
    pub window: Duration,
}

/// The clients of a published study, for a closed loop.
#[derive(clap::Args)]
#[command(next_help_heading = "Clients of a study")]
pub struct StudyArgs {
    /// Send a user's requests once its connection is made, and report connecting apart; a
    /// connection that is not made within --timeout is tried again
    #[arg(long, conflicts_with_all = ["open", "turns", "find_capacity", "in_flight"])]
    #[arg(hide_short_help = true)]
    pub connect_apart: bool,
    /// More users, each active for --stay, then away for as long, and so on; at first away
    #[arg(long, default_value_t = 0, value_name = "N", hide_default_value = true)]
    #[arg(conflicts_with_all = ["open", "sessions", "turns", "find_capacity"])]
    #[arg(hide_short_help = true)]
    pub guests: usize,
    /// How long guests stay and stay away
    #[arg(long, default_value = "2s", value_parser = span, value_name = "TIME")]
    #[arg(requires = "guests")]
    #[arg(hide_short_help = true)]
    pub stay: Duration,
    /// Stop at the first failure, and report it with its circumstances
    #[arg(long, conflicts_with_all = ["turns", "find_capacity"], hide_short_help = true)]
    pub until_failure: bool,
}
