//! The flags of `load`, in groups.

use ::load::Target;
use ::load::parse::{Scheme, rate, span};
use ::load::slo::Slo;
use ::load::stop::Precision;
use ::load::work::Think;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use wire::framing::Framing;

/// The arguments of `load`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  roundhouse load http://127.0.0.1:8080/ -c 64 -d 10s    as fast as it goes: what wrk asks
  roundhouse load http://127.0.0.1:8080/ --open 5000     5000 a second, come what may
  roundhouse load http://127.0.0.1:8080/ --find-capacity --slo '99%<5ms'
  roundhouse load line://127.0.0.1:6379 --request 'INCR x\\r\\n' --expect-prefix :
  roundhouse load stock://127.0.0.1 --sessions 200 --hgrm out.hgrm --csv out.csv

Exit codes: 0 everything was answered, and rightly; 1 it was not; 2 the flags make no sense; 98 \
the measurement is invalid, because the generator was kept from running; 99 the objective was \
missed.\nThe flags -c -t -d -n -q -z -R -H -m mean what wrk, wrk2 and oha mean by them.")]
pub struct Args {
    /// The server: stock://HOST[:PORT], http://HOST[:PORT]/PATH, echo://HOST[:PORT], or
    /// line://HOST:PORT for any protocol of lines. rtsp://HOST[:PORT]/NAME, rtspt:// (within the
    /// connection) and udp+rtp://ADDRESS:PORT are listened to by -c receivers. With `--arrivals
    /// replay` also the file of moments
    #[arg(value_name = "TARGET", num_args = 1..=2)]
    #[arg(required_unless_present_any = ["calibrate", "serve_null", "schema"])]
    pub places: Vec<String>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub span: SpanArgs,
    #[command(flatten)]
    pub links: LinkArgs,
    /// Threads of the generator, each with its share of connections and arrivals
    #[arg(long, short = 't', default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// The seed of requests, arrival times and pauses
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Run on this processor only
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Root of the server's process tree: report its CPU time, context switches and memory
    #[arg(long, value_name = "PID")]
    pub watch: Option<u32>,
    /// Report kinds of requests separately
    #[arg(long)]
    pub kinds: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub goal: GoalArgs,
    /// How often each request is made, as weights: show=5,buy=50,sell=45 for stock://, or
    /// /=90,/big=10 for http://
    #[arg(long, value_name = "MIX")]
    pub mix: Option<String>,
    #[command(flatten)]
    pub stock: StockArgs,
    #[command(flatten)]
    pub http: HttpArgs,
    #[command(flatten)]
    pub line: LineArgs,
    #[command(flatten)]
    pub echo: EchoArgs,
    #[command(flatten)]
    pub duet: DuetArgs,
    #[command(flatten)]
    pub profile: ProfileArgs,
}

/// The load model.
#[derive(clap::Args)]
#[command(next_help_heading = "Models")]
pub struct ModelArgs {
    /// Closed loop: this many users, each waiting for all replies before sending again. With --open
    /// or --sessions: this many connections at a time [default: 64; sessions: 1000]
    #[arg(long, short = 'c', visible_alias = "connections", value_name = "N")]
    pub closed: Option<usize>,
    /// Open: this many requests a second arrive, whatever the server does
    #[arg(long, short = 'q', short_alias = 'R', value_name = "RATE", value_parser = rate)]
    #[arg(conflicts_with = "sessions", allow_hyphen_values = true)]
    pub open: Option<f64>,
    /// Partly open: this many sessions a second arrive, each with a connection of its own
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub sessions: Option<f64>,
    /// Batches of requests in a session
    #[arg(long, default_value_t = 10, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub session_requests: u64,
    /// How requests or sessions arrive: poisson (independent), constant (even), or replay with a
    /// FILE that has the seconds of an arrival on each line
    #[arg(long, default_value = "poisson", value_name = "poisson|constant|replay FILE")]
    pub arrivals: ArrivalsArg,
    /// Requests that a user sends in one write, or that a connection may have outstanding
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub depth: u32,
    /// A user's think time after the replies: 100ms, exp:100ms (mean), 50ms..150ms
    #[arg(long, default_value = "0s", value_name = "DIST")]
    pub think: Think,
    /// Users arrive at this rate instead of all at once, before the measurement
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub ramp: Option<f64>,
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ArrivalsArg {
    /// Independent of each other
    Poisson,
    /// Evenly spaced
    Constant,
    /// From a file
    Replay,
}

/// How long.
#[derive(clap::Args)]
#[command(next_help_heading = "Length")]
pub struct SpanArgs {
    /// How long to measure; with --precision at most [default: 1s; with --precision 60s]
    #[arg(long = "for", short = 'd', short_alias = 'z', value_parser = span, value_name = "TIME")]
    pub span: Option<Duration>,
    /// Measure exactly this many requests instead
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "span")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Measure until a number is this precise: 2% (the median of the response), 5%:p99, 1%:rate
    #[arg(long, value_name = "SHARE[:METRIC]", conflicts_with = "count")]
    pub precision: Option<Precision>,
    /// Load before the measurement [default: 300ms after the ramp; with --count none]
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub warmup: Option<Duration>,
    /// How long to wait for the last replies
    #[arg(long, default_value = "5s", value_parser = span, value_name = "TIME")]
    pub drain: Duration,
}

/// How connections are used.
#[derive(clap::Args)]
#[command(next_help_heading = "Connections")]
pub struct LinkArgs {
    /// Close and reopen each connection after this many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests_per_connection: Option<u64>,
    /// Keep this many additional connections that never send
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub idle: usize,
    /// Connect from these local addresses in turn, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "IP")]
    pub source: Vec<IpAddr>,
    /// Give up a connection that owes replies and made no progress for this long
    #[arg(long, default_value = "30s", value_parser = span, value_name = "TIME")]
    pub timeout: Duration,
    /// Arrivals that may be outstanding or queued; further ones are dropped and count as failed
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub max_outstanding: usize,
    /// Wait actively for an arrival that is nearer than this, and in a closed loop for replies
    /// before sleeping [default: 60us; closed: 0s, always sleep]
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub spin: Option<Duration>,
}

/// Output.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print one JSON document instead of text; --schema describes it
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of that document, and do nothing else
    #[arg(long)]
    pub schema: bool,
    /// Print plain progress lines instead of the live view, even without a terminal
    #[arg(long, visible_alias = "no-live")]
    pub plain: bool,
    /// Histograms over time, as HistogramLogProcessor and HistogramLogAnalyzer read them
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_ONE_RUN)]
    pub hlog: Option<PathBuf>,
    /// How often a line of --hlog is written
    #[arg(long, default_value = "1s", value_parser = span, value_name = "TIME")]
    #[arg(requires = "hlog")]
    pub interval: Duration,
    /// All percentiles, as the plotter at hdrhistogram.github.io reads them
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_ONE_RUN)]
    pub hgrm: Option<PathBuf>,
    /// The timeline, one row per slice, and a row of totals
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_ONE_RUN)]
    pub csv: Option<PathBuf>,
}

/// Flags that lead to more than one run, or to none.
const NOT_ONE_RUN: [&str; 3] = ["duet", "find_capacity", "calibrate"];

/// Objectives, and the generator itself.
#[derive(clap::Args)]
#[command(next_help_heading = "Objectives and calibration")]
pub struct GoalArgs {
    /// The objective for response times, such as 99%<5ms or 50%<1ms,99.9%<20ms; exit code 99 if not
    #[arg(long, value_name = "SLO")]
    pub slo: Option<Slo>,
    /// Look for the highest open rate at which --slo holds
    #[arg(long, requires = "slo", conflicts_with_all = ["count", "precision", "sessions", "duet"])]
    pub find_capacity: bool,
    /// Measure what the generator itself can do here, and keep it for later verdicts
    #[arg(long, conflicts_with = "duet")]
    pub calibrate: bool,
    /// Be the server of a calibration until a signal, then print the number of requests
    #[arg(long, hide = true, value_name = "SCHEME")]
    pub serve_null: Option<Scheme>,
    /// Where it listens
    #[arg(long, hide = true, default_value_t = 0, value_name = "N", requires = "serve_null")]
    pub port: u16,
}

/// What to trade; for `stock://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets stock://")]
pub struct StockArgs {
    /// Ids of the stocks to trade, separated by commas [default: all that the server lists]
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    pub ids: Vec<String>,
    /// Orders are for 1 to this many pieces
    #[arg(long, default_value_t = 10, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub amount_max: u32,
    /// How replies end: line, fixed:8192 or eof
    #[arg(long, default_value = "line", value_name = "FRAMING")]
    pub framing: Framing,
}

/// What to request; for `http://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets http://")]
pub struct HttpArgs {
    /// The method
    #[arg(long, short = 'm', default_value = "GET", value_name = "METHOD")]
    pub method: String,
    /// A header field, such as 'Accept: text/html'; may be repeated
    #[arg(long, short = 'H', value_name = "FIELD")]
    pub header: Vec<String>,
    /// The body of each request; escapes: \r \n \t \0 \xHH
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// The status of a right reply [default: 200 to 399]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(100..=599))]
    pub expect_status: Option<u16>,
    /// The length of a right reply's body [default: what its head announces]
    #[arg(long, value_name = "BYTES")]
    pub expect_length: Option<u64>,
}

/// What to send; for `line://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets line://")]
pub struct LineArgs {
    /// The constant request; escapes: \r \n \t \0 \xHH; a missing final newline is added
    #[arg(long, value_name = "TEXT")]
    pub request: Option<String>,
    /// A file of requests, one per line, sent in order by each connection; same escapes
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    pub request_file: Option<PathBuf>,
    /// The terminator of a reply
    #[arg(long, default_value = "\\n", value_name = "TEXT")]
    pub terminator: String,
    /// Terminators per reply: 2 for a redis server's GET
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub terminators: u32,
    /// The beginning of a right reply [default: anything]
    #[arg(long, value_name = "TEXT")]
    pub expect_prefix: Option<String>,
}

/// A window of packets on each connection; for `echo://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets echo://")]
pub struct EchoArgs {
    /// Packets that each connection may have outstanding, topped up as echoes come: 1, 10, 100, 200
    /// [default: batches of --depth]. With --duet: the length of a window [default: 40ms]
    #[arg(long, value_name = "N|TIME")]
    pub window: Option<WindowArg>,
    /// The least pause between two sends on a connection
    #[arg(long, value_parser = span, value_name = "TIME", requires = "window")]
    pub send_delay: Option<Duration>,
    /// How often each thread closes and reopens its oldest connection: 500ms
    #[arg(long, value_parser = span, value_name = "TIME", requires = "window")]
    pub reconnect: Option<Duration>,
}

/// The value of `--window`: packets for a stress client, a time for a duet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowArg {
    /// Packets outstanding.
    Packets(u32),
    /// The length of a duet's window.
    Span(Duration),
}

impl FromStr for WindowArg {
    type Err = String;

    fn from_str(text: &str) -> Result<WindowArg, String> {
        if let Ok(packets @ 1..=100_000) = text.parse() {
            return Ok(WindowArg::Packets(packets));
        }
        // A time has a unit.
        let unit = text.ends_with(|it: char| it.is_ascii_alphabetic());
        let span = unit.then(|| span(text).ok()).flatten();
        span.map(WindowArg::Span).ok_or_else(|| {
            format!(
                "expected packets such as 100, at most 100000, or a time such as 40ms, found \
                 `{text}`"
            )
        })
    }
}

/// Two servers in turn.
#[derive(clap::Args)]
#[command(next_help_heading = "Duets")]
pub struct DuetArgs {
    /// A second server: alternate short windows between both and compare their CPU per request
    #[arg(long, value_name = "TARGET", requires_all = ["watch", "watch_b"])]
    pub duet: Option<Target>,
    /// Root of the second server's process tree
    #[arg(long, value_name = "PID", requires = "duet")]
    pub watch_b: Option<u32>,
    /// Windows on each server
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: u32,
    /// The second server's constant request [default: the first's]
    #[arg(long, value_name = "TEXT", requires = "duet")]
    pub request_b: Option<String>,
    /// The terminator of the second server's replies [default: as the first's]
    #[arg(long, value_name = "TEXT", requires = "duet")]
    pub terminator_b: Option<String>,
    /// What the second server's right replies begin with [default: as the first's, or anything if
    /// it has a request of its own]
    #[arg(long, value_name = "TEXT", requires = "duet")]
    pub expect_prefix_b: Option<String>,
}

/// Another generator.
#[derive(clap::Args)]
#[command(next_help_heading = "Profiles")]
pub struct ProfileArgs {
    /// Be the clients of a published study: `simulator` is a thread for each of --closed clients,
    /// all of whom start at a barrier, connect anew for each request, and try again when the time
    /// is up; knows --for, --warmup, --timeout, --ramp, --json and the flags below
    #[arg(long, value_name = "NAME", conflicts_with_all = ["open", "sessions", "duet", "count"])]
    pub profile: Option<Profile>,
    /// Additional clients that come for --stay, leave for as long, and return
    #[arg(long, default_value_t = 0, value_name = "N", requires = "profile")]
    pub guests: u32,
    /// How long guests stay, and how long they are away
    #[arg(long, default_value = "2s", value_parser = span, value_name = "TIME")]
    #[arg(requires = "profile")]
    pub stay: Duration,
    /// End with the first failure, and report its circumstances
    #[arg(long, requires = "profile")]
    pub until_failure: bool,
    /// A row for each request: when, connecting, response, bytes
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub log: Option<PathBuf>,
}

/// The profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// The client simulator of a study of Apache's directives
    Simulator,
}
