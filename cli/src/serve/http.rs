//! `roundhouse serve http`: files and the routes of a demonstration over HTTP/1.1 and HTTP/2.
//!
//! Flags become `Options`, `Rules` and one `Site` per folder; then the service is wrapped from the
//! inside out: `Web`, TLS if there are certificates, the PROXY protocol. The access log lives in a
//! journal that all workers share; the supervisor writes it to the file. Requests open files, so a
//! quarter of each process's descriptors is kept for them. The engine may send a file by itself
//! only without TLS.

mod sites;
mod users;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use ::layers::http2::Http2;
use ::layers::proxy::Proxied;
use ::layers::tls::Tls;
use ::layers::{SiteNames, Trusted};
use ::web::{
    ErrorPage, FIELDS_MAX, FieldRule, Format, Journal, LifetimeRule, MediaType, Options, Origin,
    Redirect, Rules, Web, media_type,
};
use anyhow::{Context, Result, anyhow};
use engines::{Assets, Container, Handover, Refused, Renew, Shape, WORKERS_MAX};
use language::info;
use memory::Region;
use seam::Service;

use server::certificate::{self, Certificates};
use server::{Beside, ServerArgs, ServiceInstance};
use tools::serve::WALL_CLOCK;
use tools::serve::access_log::AccessLog;
use tools::serve::site::Site;
use wire::conf::span;

use sites::SiteArg;
use users::{UserFiles, UsersFlag};

/// The port without --port.
const PORT: u16 = 8080;

/// The flags of the web service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("8080")))]
pub struct Args {
    /// The folder to serve, with --site for unknown names [default: the first site's; without a
    /// site the current one; with --demo: none]
    dir: Option<PathBuf>,
    /// Serve ROOT to clients that ask for a host of this name, such as a.org,*.a.org=/srv/a; may be
    /// repeated
    #[arg(long, value_name = "NAME[,NAME]=ROOT")]
    site: Vec<SiteArg>,
    /// Offer /, /echo, /cookie, /plaintext, /json, /dynamic?rows=N, /work?ms=N and /sleep?ms=N
    #[arg(long)]
    demo: bool,
    /// The media type of files with an extension, such as glb=model/gltf-binary; may be repeated
    #[arg(long, value_name = "EXT=TYPE", hide_short_help = true)]
    media_type: Vec<MediaType>,
    /// Do not list folders that have no index.html
    #[arg(long)]
    no_listing: bool,
    /// The longest body of a request
    #[arg(long, default_value_t = Options::default().body_max, value_name = "BYTES")]
    body_max: u64,
    /// How long a client may take to send the head of a request
    #[arg(long, default_value = "10s", value_parser = span, value_name = "TIME")]
    head_time: Duration,
    /// How long a connection may be idle between two requests
    #[arg(long, default_value = "15s", value_parser = span, value_name = "TIME")]
    keep_alive: Duration,
    /// The slowest that a client may send a body, in bytes a second; 0: as slowly as it likes
    #[arg(long, default_value_t = Options::default().body_rate, value_name = "BYTES")]
    #[arg(hide_short_help = true)]
    body_rate: u64,
    /// How long a body may stay below --body-rate
    #[arg(long, default_value = "60s", value_parser = span, value_name = "TIME")]
    #[arg(hide_short_help = true)]
    body_grace: Duration,
    /// Log each request to this file, which may be moved away at any time; - is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// The format of the access log: common, combined, json, or a pattern of Apache's directives,
    /// such as '%h %u "%r" %s %D'
    #[arg(long, default_value_t, value_name = "FORMAT")]
    log_format: Format,
    /// Log the client that proxies of this address, network or `unix` name in X-Forwarded-For; may
    /// be repeated
    #[arg(long, value_name = "NETWORK", requires = "access_log", hide_short_help = true)]
    trust: Vec<Trusted>,
    /// Expect the PROXY protocol (version 1 or 2) from this address, network or `unix`, and take
    /// the client that it names; may be repeated
    #[arg(long, value_name = "NETWORK", hide_short_help = true)]
    proxy_protocol: Vec<Trusted>,
    /// The page for a status of 400 or more, as 404=FILE; may be repeated
    #[arg(long, value_name = "STATUS=FILE", hide_short_help = true)]
    error_page: Vec<PageFlag>,
    /// Speak HTTP/1.1 alone over TLS, where browsers would choose HTTP/2
    #[arg(long, hide_short_help = true)]
    no_http2: bool,
    /// Speak HTTP/2 without TLS too, with clients that know it beforehand; files are then copied
    #[arg(long, hide_short_help = true)]
    h2c: bool,
    /// Answer clients without TLS by the https address of what they ask for, on this port as they
    /// see it, such as 443; files below /.well-known/acme-challenge/ are served
    #[arg(long, value_name = "PORT", hide_short_help = true)]
    https_redirect: Option<u16>,
    /// Ask for a name and a password of FILE, which `htpasswd -B` writes, for paths that begin so;
    /// may be repeated, the first that matches counts
    #[arg(long, value_name = "/PREFIX=FILE", hide_short_help = true)]
    auth: Vec<UsersFlag>,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Additions to replies.
#[derive(clap::Args)]
#[command(next_help_heading = "Replies")]
struct RuleArgs {
    /// A field of every reply, or with `/PREFIX NAME: VALUE` of those below a path; may be repeated
    #[arg(long, value_name = "NAME: VALUE", hide_short_help = true)]
    header: Vec<FieldRule>,
    /// Cache-Control of files: *.EXT=VALUE by the end of their name, /PREFIX=VALUE by their path;
    /// may be repeated, the first that matches counts
    #[arg(long, value_name = "PATTERN=VALUE", hide_short_help = true)]
    cache_control: Vec<LifetimeRule>,
    /// Let scripts of this origin read replies, or those of all with * (CORS); may be repeated
    #[arg(long, value_name = "ORIGIN", hide_short_help = true)]
    cors: Vec<Origin>,
    /// Redirect a path, or with /* at the end all below it; 301, or `308 FROM=TO`; may be repeated
    #[arg(long, value_name = "FROM=TO", hide_short_help = true)]
    redirect: Vec<Redirect>,
    /// Compress text files of 1 KiB to 8 MiB with brotli, zstd or gzip for clients that accept it
    #[arg(long)]
    compress: bool,
    /// The memory in which each process keeps files that it has compressed, in bytes
    #[arg(long, default_value_t = 32 << 20, value_name = "BYTES", requires = "compress")]
    #[arg(hide_short_help = true)]
    compress_max: usize,
    /// The file that is served for a path without a file, such as /index.html
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    fallback: Option<String>,
}

impl RuleArgs {
    fn rules(&self) -> Rules {
        Rules {
            fields: self.header.clone(),
            lifetimes: self.cache_control.clone(),
            origins: self.cors.clone(),
            redirects: self.redirect.clone(),
            fallback: self.fallback.clone(),
        }
    }
}

/// The value of `--error-page`.
#[derive(Clone, Debug)]
struct PageFlag {
    code: u16,
    path: PathBuf,
}

impl FromStr for PageFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<PageFlag, String> {
        let parsed = text.split_once('=').and_then(|(code, path)| {
            let code = code.parse().ok().filter(|code| (400..600).contains(code))?;
            Some(PageFlag { code, path: path.into() })
        });
        parsed.ok_or_else(|| format!("expected STATUS=FILE, such as 404=lost.html, found `{text}`"))
    }
}

impl PageFlag {
    fn page(&self, types: &[MediaType]) -> Result<ErrorPage> {
        let body = sys::input::read(&self.path, sys::input::SMALL)
            .with_context(|| format!("cannot read the page {}", self.path.display()))?;
        let kind = media_type(&self.path.to_string_lossy(), types);
        Ok(ErrorPage { code: self.code, kind, body: body.into() })
    }
}

/// Descriptors of a process besides those of connections and files: loops, bells, logs.
const DESCRIPTORS: u64 = 32;

/// Keeps a quarter of each process's descriptors for the files that requests open: more connections
/// wait in the kernel's queue.
fn keep_descriptors(shape: &mut Shape) {
    let Ok(limit) = sys::limits::open_files() else { return };
    let processes = match shape.container {
        Container::ProcessPerConnection => return,
        Container::Processes | Container::Hybrid => shape.workers / shape.threads(),
        _ => 1,
    };
    let each = (limit.hard - limit.hard / 4).saturating_sub(DESCRIPTORS).max(1);
    let all = usize::try_from(each).unwrap_or(usize::MAX).saturating_mul(processes.max(1));
    let usual = Options::default().limits.sessions_max;
    let most = if shape.container.is_per_connection() { WORKERS_MAX } else { usize::MAX };
    let wanted = shape.knobs.limits.sessions_max.unwrap_or(usual).min(most);
    if all < wanted {
        // The default is more than any usual limit allows; only a demand deserves a line.
        if shape.knobs.limits.sessions_max.is_some() {
            info!(
                "at most {all} connections at once, because a quarter of {} descriptors is kept \
                 for files: raise the limit (ulimit -n) for {wanted}",
                limit.hard
            );
        }
        shape.knobs.limits.sessions_max = Some(all);
    }
}

/// The sites, the one for unknown names first: their names, and rules and files of each.
fn sites(args: &Args, lends: bool) -> Result<(SiteNames, Vec<Rules>, Vec<Site>)> {
    let open = |dir: &Path| {
        Site::open(dir, lends).with_context(|| {
            format!("cannot serve {}: expected a folder that can be read", dir.display())
        })
    };
    let (mut names, mut rules, mut files) = (SiteNames::default(), Vec::new(), Vec::new());
    let all = args.rules.rules();
    if args.dir.is_some() || args.site.is_empty() {
        files.push(match (&args.dir, args.demo) {
            (Some(dir), _) => open(dir)?,
            (None, true) => Site::without_files(),
            (None, false) => open(Path::new("."))?,
        });
        rules.push(all.clone());
    }
    for site in &args.site {
        names.add(files.len(), &site.names).map_err(Refused)?;
        rules.push(site.rules(&all));
        files.push(open(&site.root)?);
    }
    if let Some(count) = rules.iter().map(|it| it.fields.len()).find(|it| *it > FIELDS_MAX) {
        let why = format!("expected at most {FIELDS_MAX} --header of a site, found {count}");
        return Err(Refused(why).into());
    }
    Ok((names, rules, files))
}

/// Why a flag has no use with a certificate, or without one.
fn without_use(args: &Args, is_sealed: bool) -> &'static str {
    match is_sealed {
        true if args.h2c => "expected --h2c without a certificate: TLS offers HTTP/2 anyway",
        false if args.https_redirect.is_some() => {
            "expected --https-redirect with a certificate, found none"
        }
        false if args.no_http2 => "expected --no-http2 with a certificate, found none",
        _ => "",
    }
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    args.server.refuse_layers(false, "pages ask this server over HTTP already")?;
    let mut shape = args.server.shape()?;
    keep_descriptors(&mut shape);
    let key_files = args.site.iter().filter_map(SiteArg::key_files);
    let certificates = Certificates::new(&args.server.certificate, key_files);
    let protocols = if args.no_http2 { certificate::HTTP } else { certificate::HTTP2 };
    let keys = certificates.keys(protocols)?;
    let without_use = without_use(&args, keys.is_some());
    if !without_use.is_empty() {
        return Err(Refused(without_use.to_owned()).into());
    }
    // A layer frames and encrypts bytes in memory only.
    let (names, mut rules, mut files) = sites(&args, keys.is_none() && !args.h2c)?;
    let others = (rules.split_off(1), files.split_off(1));
    let users = UserFiles::open(&args.auth).map_err(|why| Refused(format!("{why:#}")))?;
    let pages = args.error_page.iter().map(|it| it.page(&args.media_type));
    let options = Options {
        demo: args.demo,
        files: args.dir.is_some() || !args.demo || !args.site.is_empty(),
        listing: !args.no_listing,
        body_max: args.body_max,
        head_time: args.head_time,
        keep_alive: args.keep_alive,
        body_grace: if args.body_rate == 0 { Duration::MAX } else { args.body_grace },
        body_rate: args.body_rate,
        https: args.https_redirect,
        guards: users.guards(),
        record: args.access_log.as_ref().map(|_| args.log_format.clone()),
        trusted: args.trust.clone(),
        wall: WALL_CLOCK,
        media_types: args.media_type.clone(),
        error_pages: pages.collect::<Result<_>>()?,
        compress_max: if args.rules.compress { args.rules.compress_max } else { 0 },
        rules: rules.remove(0),
        other_rules: others.0,
        names,
        ..Options::default()
    };
    let log_file = args.access_log.clone().filter(|path| path.as_os_str() != "-");
    let mut log = AccessLog::open(args.access_log)?;
    let handover = Handover::receive()?;
    let mut journal = args.server.state::<Journal>(&shape, handover.as_ref(), "journal")?;
    if handover.is_none() {
        journal.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    }
    let web = Web::with_sites(options, files.remove(0), others.1);
    let instance = Instance {
        server: &args.server,
        shape: &shape,
        proxies: args.proxy_protocol,
        journal: &journal,
        handover: handover.as_ref(),
        users,
        writes: log_file.into_iter().collect(),
    };
    let takes_plain = args.https_redirect.is_some();
    match keys {
        None if args.h2c => instance.serve("http", &Http2::new(web), &mut log, None),
        None => instance.serve("http", &web, &mut log, None),
        Some(keys) if args.no_http2 => {
            instance.seal(Tls::new(web, keys), takes_plain, &certificates, &mut log)
        }
        Some(keys) => {
            instance.seal(Tls::new(Http2::new(web), keys), takes_plain, &certificates, &mut log)
        }
    }
}

/// All parts of a server but its service.
struct Instance<'a> {
    server: &'a ServerArgs,
    shape: &'a Shape,
    /// Peers that speak the PROXY protocol.
    proxies: Vec<Trusted>,
    journal: &'a Region<Journal>,
    handover: Option<&'a Handover>,
    users: UserFiles,
    /// The files that it writes to.
    writes: Vec<PathBuf>,
}

impl Instance<'_> {
    /// Serves over TLS.
    fn seal<S: Service<State = Journal> + 'static>(
        self,
        tls: Tls<S>,
        takes_plain: bool,
        certificates: &Certificates,
        log: &mut AccessLog,
    ) -> Result<ExitCode> {
        let tls = if takes_plain { tls.taking_plain() } else { tls };
        let renew = certificates.renewal(tls.keys());
        self.serve("https", &tls, log, Some(&renew))
    }

    /// Serves `service`: the web service, or TLS around it.
    fn serve<S: Service<State = Journal>>(
        self,
        name: &'static str,
        service: &S,
        log: &mut AccessLog,
        renew: Option<&Renew<'_>>,
    ) -> Result<ExitCode> {
        let service = Proxied::new(service, self.proxies, Journal::count_unproxied);
        let instance = ServiceInstance {
            name,
            port: PORT,
            tries: match name {
                "https" => &["https://{at}/ in a browser", "curl -k https://{at}/"],
                _ => &["http://{at}/ in a browser", "roundhouse load http://{at}/ --for 2s"],
            },
            service: &service,
            state: self.journal,
            assets: &Assets::default(),
            handover: self.handover,
            grammar: crate::grammar,
            facts: &[],
        };
        let (users, keys) = (self.users, renew);
        let all = |edition| {
            let said = [keys.and_then(|renew| renew(edition)), users.renew(edition)];
            let said: Vec<String> = said.into_iter().flatten().collect();
            (!said.is_empty()).then(|| said.join("; "))
        };
        let renew: Option<&Renew<'_>> =
            if keys.is_some() || !users.is_empty() { Some(&all) } else { None };
        let beside = Beside { renew, writes: Some(&self.writes), ..Beside::default() };
        let ended = self.server.run(self.shape, &instance, beside, log);
        log.finish(self.journal);
        ended
    }
}
