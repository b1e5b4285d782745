//! From flags to plans, or to a message about the invalid flag.
//!
//! `Args::plan` is pure apart from the files that flags name: the same arguments give the same
//! `Plan`, which the crate `load` then runs. Defaults that depend on other flags (connections,
//! warm-up, drain, length) are decided here and nowhere else. A flag that would have no effect on
//! this target is an error with the reason, because a user would otherwise trust a load that never
//! was.

use super::flags::{Args, ArrivalsArg, HttpArgs, LineArgs, LinkArgs};
use super::grpc;
use ::load::drive::{Guests, Settings};
use ::load::model::{Arrivals, Model};
use ::load::parse::{self, Proxy, Scheme, Via};
use ::load::run::{Watched, Window, Workload};
use ::load::script::{
    self, Expectation, Flows, HttpOptions, LineOptions, StockOptions, WebRequest,
};
use ::load::tls::TlsOptions;
use ::load::work::{Think, UNTIL_THROUGH};
use ::load::{Mix, Plan, Stages, Target, TurnsPlan, Usage};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Parser;
use language::info;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The default number of users, pooled connections or concurrent sessions.
const CONNECTIONS: usize = 64;
const SESSIONS: usize = 1000;
/// The shortest stay of guests.
const STAY_MIN: Duration = Duration::from_millis(10);
/// Load before a measurement by time.
const WARMUP: Duration = Duration::from_millis(300);
/// How long a store with receipts may be silent: elections and restarts take seconds.
const DRAIN_NUMBERED: Duration = Duration::from_secs(60);
/// How long to measure.
const SPAN: Duration = Duration::from_secs(1);

impl Args {
    pub fn plan(&self) -> Result<Plan, Usage> {
        let target = self.target()?;
        let (model, settings) = (self.model()?, self.settings()?);
        if self.flow.flow.is_some() {
            Flows::check(&model, &target)?;
        }
        if settings.tops_up && target.scheme != Scheme::Echo {
            return Err(Usage(format!("expected --in-flight with echo://, found {target}")));
        }
        let ramp = model.ramp(settings.connections);
        let is_whole = self.span.count.is_some() || self.model.stages.is_some();
        let warmup = if is_whole { Duration::ZERO } else { WARMUP };
        Ok(Plan {
            model,
            sources: self.links.source.clone(),
            threads: usize::from(self.threads),
            seed: self.seed,
            warmup: self.span.warmup.unwrap_or(warmup + ramp),
            window: self.window(),
            cpu: self.cpu,
            watch: self.watch.map(|pid| Watched {
                pid,
                group: self.watch_group.clone(),
                place: self.watch_at.clone(),
            }),
            slo: self.goal.slo.clone(),
            requests_csv: self.output.requests_csv.clone(),
            stages: self.model.stages.clone().map(Arc::new),
            settings,
            ..Plan::new(target.clone(), self.workload(&target)?)
        })
    }

    /// The plan of the runs in `file` that take turns.
    pub fn turns_plan(&self, file: &Path) -> Result<TurnsPlan, Usage> {
        let bad = |why: String| {
            Usage(format!(
                "{}: expected a JSON list with a list of arguments for each server, such as \
                 [[\"stock://127.0.0.1:6000\", \"--watch\", \"1234\"]], found: {why}",
                file.display()
            ))
        };
        let text = read(file)?;
        let all: Vec<Vec<String>> =
            serde_json::from_slice(&text).map_err(|why| bad(why.to_string()))?;
        if all.is_empty() {
            return Err(bad("no server".to_owned()));
        }
        let runs = all.iter().map(|words| {
            let words = std::iter::once("load").chain(words.iter().map(String::as_str));
            let line = RunLine::try_parse_from(words).map_err(|why| bad(why.to_string()))?;
            match line.args.turns.turns {
                Some(_) => Err(bad("--turns within a turn".to_owned())),
                None if line.args.model.stages.is_some() => {
                    Err(bad("--stages, whose length is not that of a turn".to_owned()))
                }
                None if line.args.output.is_of_one_run() => Err(bad(
                    "--requests-csv, --prometheus or --otlp, which take one run".to_owned(),
                )),
                None => line.args.plan(),
            }
        });
        Ok(TurnsPlan {
            runs: runs.collect::<Result<_, _>>()?,
            windows: self.turns.windows,
            window: self.turns.window,
            seed: self.seed,
            cpu: self.cpu,
        })
    }

    pub(super) fn target(&self) -> Result<Target, Usage> {
        let [place] = &self.places[..] else {
            let places = self.places.join("` and `");
            return Err(Usage(format!("expected one target, found `{places}`")));
        };
        let LinkArgs { cacert, insecure, no_resume, cert, key, unix, .. } = &self.links;
        let proxy = self.links.proxy.as_deref();
        // A password may have an @, and a place has none.
        let proxy = proxy.map(|it| it.rsplit_once('@').map_or((None, it), |it| (Some(it.0), it.1)));
        let place_of_proxy = proxy.map(|it| it.1);
        let via = match (unix, place_of_proxy.or(self.links.connect_to.as_deref())) {
            (Some(path), _) => Some(Via::Unix(path.clone())),
            (None, place) => place.map(|it| Via::Place(it.to_owned())),
        };
        let mut target = Target::via(place, via.as_ref())?;
        let client = cert.clone().zip(key.clone());
        let (roots, is_insecure, no_resume) = (cacert.clone(), *insecure, *no_resume);
        target.trust(TlsOptions { roots, is_insecure, no_resume, client })?;
        if self.http.http2 {
            target.speak_http2()?;
        }
        if let Some((login, _)) = proxy {
            let login = login.map(|it| basic("--proxy", it)).transpose()?;
            target.ask_proxy(Proxy { login })?;
        }
        Ok(target)
    }

    fn model(&self) -> Result<Model, Usage> {
        let flags = &self.model;
        if flags.ramp.is_some() && (flags.open.is_some() || flags.sessions.is_some()) {
            return Err(Usage(
                "expected --ramp with a closed loop, found another model".to_owned(),
            ));
        }
        let arrivals = match flags.arrivals {
            ArrivalsArg::Constant => Arrivals::Constant,
            ArrivalsArg::Poisson => Arrivals::Poisson,
        };
        let (mut depth, mut think) = (flags.depth, flags.think);
        if let Some(window) = self.echo.in_flight {
            // Each user has a window, and pauses between two sends.
            let pause = self.echo.send_delay.filter(|pause| !pause.is_zero());
            (depth, think) = (window, pause.map_or(Think::None, Think::Fixed));
        }
        let is_flow = self.flow.flow.is_some();
        let mean = flags.stages.as_ref().filter(|it| it.is_rate).map(Stages::mean);
        Ok(match (flags.open.or(mean.filter(|_| !is_flow)), flags.sessions.or(mean)) {
            (None, Some(rate)) => {
                let rounds = if is_flow { UNTIL_THROUGH } else { flags.session_requests };
                Model::Sessions { rate, arrivals, rounds, depth, think }
            }
            (Some(rate), _) => Model::Open { rate, arrivals, depth },
            (None, None) => Model::Closed { depth, think, ramp: flags.ramp },
        })
    }

    fn window(&self) -> Window {
        match (self.span.count, &self.model.stages) {
            (Some(count), _) => Window::Count(count),
            (None, Some(stages)) => Window::For(stages.span()),
            (None, None) => Window::For(self.span.span.unwrap_or(SPAN)),
        }
    }

    fn settings(&self) -> Result<Settings, Usage> {
        let stages = self.model.stages.as_ref();
        let has_sessions = self.flow.flow.is_some() && stages.is_some_and(|it| it.is_rate);
        let usual = match self.model.sessions.is_some() || has_sessions {
            true => SESSIONS,
            false => CONNECTIONS,
        };
        let connections = match (stages.filter(|it| !it.is_rate), self.model.closed) {
            (Some(stages), Some(_)) => {
                return Err(Usage(format!(
                    "expected --stages {stages} alone, whose levels are users, found -c too"
                )));
            }
            (Some(stages), None) => stages.most() as usize,
            (None, closed) => closed.unwrap_or(usual),
        };
        if connections == 0 {
            return Err(Usage("expected at least one connection, found --closed 0".to_owned()));
        }
        let usual = Settings::default();
        let (count, stay) = (self.study.guests, self.study.stay);
        if count > 0 && stay < STAY_MIN {
            return Err(Usage(format!("expected --stay of {STAY_MIN:?} or more, found {stay:?}")));
        }
        Ok(Settings {
            connections: connections + count,
            requests_per_connection: self.links.requests_per_connection,
            timeout: self.links.timeout,
            drain: self.span.drain.unwrap_or(match self.stock.receipts {
                Some(_) => DRAIN_NUMBERED,
                None => usual.drain,
            }),
            idle: self.links.idle,
            outstanding_max: self.links.max_outstanding.max(1),
            spin: self.links.spin.unwrap_or(usual.spin),
            linger: self.links.spin.unwrap_or(usual.linger),
            detailed: self.kinds || self.flow.flow.is_some(),
            tops_up: self.echo.in_flight.is_some(),
            renew: self.echo.reconnect,
            connect_apart: self.study.connect_apart,
            guests: (count > 0).then_some(Guests { count, stay }),
            until_failure: self.study.until_failure,
        })
    }

    fn workload(&self, target: &Target) -> Result<Workload, Usage> {
        let mix = self.mix.as_deref();
        if let Some(mix) = mix
            && !matches!(target.scheme, Scheme::Stock | Scheme::Http)
        {
            let why =
                format!("expected --mix with stock:// or http://, found {target} and `{mix}`");
            return Err(Usage(why));
        }
        if let (Some(file), false) = (&self.stock.receipts, target.scheme == Scheme::Stock) {
            let file = file.display();
            return Err(Usage(format!("expected --receipts {file} with stock://, found {target}")));
        }
        Ok(match target.scheme {
            Scheme::Stock => {
                let options = StockOptions {
                    mix: mix.map(str::parse::<Mix>).transpose()?.unwrap_or_default(),
                    ids: self.stock.ids.clone(),
                    amount_max: self.stock.amount_max,
                    framing: self.stock.framing,
                    is_lenient: self.stock.lenient,
                    seed: self.seed,
                };
                match self.stock.receipts.clone() {
                    Some(file) => Workload::Receipts(options, file),
                    None => Workload::Stock(options),
                }
            }
            Scheme::Http => match &self.flow.flow {
                Some(file) => {
                    let flows = Flows::read(file, target, &self.http.fields(target)?)?;
                    Workload::Flow(Arc::new(flows), self.seed)
                }
                None => Workload::Http(self.http.options(target, mix, self.seed)?),
            },
            Scheme::Echo => Workload::Echo,
            Scheme::Line => Workload::Line(self.line.options(target)?),
        })
    }
}

/// The credentials of a user (RFC 7617), as a flag has them; no error shows them.
fn basic(flag: &str, user: &str) -> Result<String, Usage> {
    let (name, password) =
        tools::play::login(user).map_err(|why| Usage(format!("{flag}: {why:#}")))?;
    Ok(format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}"))))
}

impl HttpArgs {
    /// The header fields of every request, with those of `--user` and of a proxy.
    fn fields(&self, target: &Target) -> Result<Vec<(String, String)>, Usage> {
        let field = |field: &String| {
            let (name, value) = field.split_once(':').ok_or_else(|| {
                Usage(format!("expected a header such as `Accept: text/html`, found `{field}`"))
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let mut fields: Vec<_> = self.header.iter().map(field).collect::<Result<_, Usage>>()?;
        // In a tunnel the server would get it.
        let proxy = target.proxy.as_ref().filter(|_| target.tls.is_none());
        let login = proxy.and_then(|it| it.login.clone());
        fields.extend(login.map(|it| ("Proxy-Authorization".to_owned(), it)));
        let Some(user) = &self.user else { return Ok(fields) };
        if fields.iter().any(|field| field.0.eq_ignore_ascii_case("authorization")) {
            return Err(Usage("expected --user or -H Authorization, found both".to_owned()));
        }
        fields.push(("Authorization".to_owned(), basic("--user", user)?));
        Ok(fields)
    }

    fn options(&self, target: &Target, mix: Option<&str>, seed: u64) -> Result<HttpOptions, Usage> {
        let lists = [
            ("--method", self.method != "GET"),
            ("--mix", mix.is_some()),
            ("--urls", self.urls.is_some()),
            ("--har", self.har.is_some()),
            ("--malformed", self.malformed),
        ];
        if let Some((flag, _)) = lists.iter().find(|it| it.1 && target.is_grpc) {
            return Err(Usage(format!(
                "expected {target} without {flag}, because a call of gRPC is a POST of one \
                 message; leave {flag} out"
            )));
        }
        let body = match (&self.body, &self.body_file, &self.descriptor) {
            (Some(text), ..) => parse::bytes(text)?,
            (None, Some(file), _) => read(file)?,
            (None, None, Some(file)) => grpc::message(file, target, self.data.as_deref())?,
            (None, None, None) => Vec::new(),
        };
        let mut options = HttpOptions {
            method: self.method.clone(),
            authority: target.authority.clone(),
            prefix: target.prefix(),
            requests: self.requests(target, mix)?,
            in_order: self.har.is_some(),
            headers: self.fields(target)?,
            body,
            wanted: Expectation { status: self.expect_status, length: self.expect_length },
            takes_malformed: self.malformed,
            seed,
        };
        if target.is_grpc {
            options.call_grpc();
        }
        Ok(options)
    }

    /// The requests of the flag that lists them.
    fn requests(&self, target: &Target, mix: Option<&str>) -> Result<Vec<WebRequest>, Usage> {
        match (mix, &self.urls, &self.har) {
            (Some(mix), ..) => Ok(parse::weights(mix)?.into_iter().map(Into::into).collect()),
            (None, Some(file), _) => {
                let text = String::from_utf8(read(file)?)
                    .map_err(|_| Usage(format!("{}: expected lines of UTF-8", file.display())))?;
                script::urls(&text, target).map_err(named(file))
            }
            (None, None, Some(file)) => self.recorded(file, target),
            (None, None, None) => Ok(vec![(target.path.clone(), 1).into()]),
        }
    }

    pub(super) fn recorded(&self, file: &Path, target: &Target) -> Result<Vec<WebRequest>, Usage> {
        let found = script::har(&read(file)?, target, self.har_cookies);
        let (requests, others) = found.map_err(named(file))?;
        if !others.is_empty() {
            let (file, kept) = (file.display(), requests.len());
            let skipped: usize = others.values().sum();
            let origin = |(origin, count): (&String, &usize)| format!("{origin} ({count})");
            let others = others.iter().map(origin).collect::<Vec<_>>().join(", ");
            info!("{file}: {kept} requests; {skipped} to other origins are left out: {others}");
        }
        Ok(requests)
    }
}

/// Puts the name of a file before an error.
pub(super) fn named(file: &Path) -> impl Fn(Usage) -> Usage {
    move |Usage(why)| Usage(format!("{}: {why}", file.display()))
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, Usage> {
    sys::input::read(file, sys::input::SMALL)
        .map_err(|e| Usage(format!("{}: cannot read: {e}", file.display())))
}

/// A request with its escapes resolved, and with a newline.
fn request(text: &str) -> Result<Vec<u8>, Usage> {
    let mut request = parse::bytes(text)?;
    if !request.ends_with(b"\n") {
        request.push(b'\n');
    }
    Ok(request)
}

impl LineArgs {
    /// The requests of a line protocol, with escapes resolved.
    fn options(&self, target: &Target) -> Result<LineOptions, Usage> {
        let requests: Vec<Vec<u8>> = match &self.request_file {
            Some(file) => {
                let text = String::from_utf8(read(file)?).map_err(|_| {
                    Usage(format!("{}: expected lines of UTF-8; write \\xHH", file.display()))
                })?;
                text.lines().map(request).collect::<Result<_, _>>()?
            }
            None => self.request.iter().map(|text| request(text)).collect::<Result<_, _>>()?,
        };
        if requests.is_empty() {
            return Err(Usage(format!(
                "{target}: expected --request TEXT, such as --request 'INCR x\\r\\n', or \
                 --request-file FILE with a line or more"
            )));
        }
        let terminator = parse::bytes(&self.terminator)?;
        if terminator.is_empty() {
            return Err(Usage("expected a --terminator of a byte or more, found none".to_owned()));
        }
        let prefix = parse::bytes(self.expect_prefix.as_deref().unwrap_or_default())?;
        Ok(LineOptions { requests, terminator, terminators: self.terminators, prefix })
    }
}

/// The arguments of one of the runs that take turns.
#[derive(clap::Parser)]
struct RunLine {
    #[command(flatten)]
    args: Args,
}

#[cfg(test)]
mod tests;
