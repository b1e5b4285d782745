//! From a service to a running server: as a program with flags, or inside another program.
//!
//! Three ways lead to `engines::run`. `main` parses the flags of `roundhouse serve`, places or
//! inherits the state, and prints the ready line. `run` serves in the caller's thread until a
//! signal, without flags. `spawn` serves in a new thread and returns a handle once clients can
//! connect; dropping the handle drains the server. Layers are put around the service from the
//! inside out: WebSocket, then TLS. Before anything starts, `check` refuses engines under which
//! this service would be wrong.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ::layers::http2::Http2;
#[cfg(feature = "tls")]
use ::layers::tls::Tls;
use ::layers::websocket::WebSocket;
use clap::CommandFactory;
use engines::{
    Admin, Assets, Control, Fault, Handover, Host, NoStateStore, Refused, Renew, Report, Shape,
    Started, StateStore,
};
use memory::Region;
use seam::{Service, Share};
use server::certificate::{self, CertificateArgs, Certificates};
use server::{Beside, ServerArgs, ServiceInstance, config};
use wire::websocket::WebSocketOptions;

/// The port of a program without `--port`.
const PORT: u16 = 7000;
/// The interval of looks whether a server before has left.
const LOOK: Duration = Duration::from_millis(20);

/// Serves `service` as a program, with every flag of `roundhouse serve`: parses the command line,
/// prints one line of JSON when the server is ready, and serves until it is stopped.
pub fn main<S: Service + Send + 'static>(service: S) -> ExitCode {
    Server::new(service).main()
}

/// The command line of a program.
#[derive(clap::Parser)]
#[command(name = program(), about = "Serve on any server architecture", max_term_width = 100)]
struct Flags {
    #[command(flatten)]
    server: ServerArgs,
    /// Read the shared state from FILE at the start, and write it there at the end [nothing]
    ///
    /// A file that does not exist is written for the first time at the end. Any engine reads it. A
    /// killed server writes nothing.
    #[arg(long, value_name = "FILE", help_heading = "State")]
    state_file: Option<PathBuf>,
}

/// A service and how it is served.
///
/// ```
/// use roundhouse::prelude::*;
/// use std::io::{Read, Write};
///
/// let echo = lines(|line, reply| {
///     reply.put(line);
/// });
/// let server = Server::new(echo).engine("reactor").listen("127.0.0.1:0").spawn().unwrap();
/// let mut client = std::net::TcpStream::connect(server.address()).unwrap();
/// client.write_all(b"hi\n").unwrap();
/// client.shutdown(std::net::Shutdown::Write).unwrap();
/// let mut heard = String::new();
/// client.read_to_string(&mut heard).unwrap();
/// assert_eq!(heard, "hi\n");
/// assert_eq!(server.stop().unwrap().accepted, 1);
/// ```
#[derive(Debug)]
pub struct Server<S: Service> {
    service: Arc<S>,
    websocket: Option<WebSocketOptions>,
    http2: bool,
    certificate: CertificateArgs,
    pushes: bool,
    engine: String,
    address: Result<SocketAddr, String>,
    on_ready: fn(SocketAddr),
    seed: Vec<u8>,
    drain: Option<Duration>,
    state_file: Option<PathBuf>,
}

impl<S: Service + Send + 'static> Server<S> {
    /// A server of `service` on `epoll`, at a free port of this machine.
    pub fn new(service: S) -> Server<S> {
        Server {
            service: Arc::new(service),
            websocket: None,
            http2: false,
            certificate: CertificateArgs::default(),
            pushes: false,
            engine: "epoll".to_owned(),
            address: Ok(SocketAddr::from(([127, 0, 0, 1], 0))),
            on_ready: |_| {},
            seed: Vec::new(),
            drain: None,
            state_file: None,
        }
    }

    /// Clients speak WebSocket (RFC 6455), such as pages of browsers; a program does so by
    /// `--websocket` too. The options say what a message is, which pages may connect, and the page
    /// for a browser that opens the address; `MessageKind::Text.into()` is enough for lines.
    #[must_use]
    pub fn websocket(self, options: WebSocketOptions) -> Self {
        Server { websocket: Some(options), ..self }
    }

    /// Clients may speak HTTP/2 (RFC 9113) to a service of HTTP/1.1, such as [`crate::routes`]:
    /// over TLS by ALPN, else if they know it beforehand (`curl --http2-prior-knowledge`). Each
    /// stream is a connection for the service; its sessions cannot be pushed to.
    ///
    /// ```no_run
    /// use roundhouse::prelude::*;
    ///
    /// let service = routes::<()>().get("/", |_, _| "hello").service();
    /// Server::new(service).http2().run()?;
    /// # Ok::<(), roundhouse::Fault>(())
    /// ```
    #[must_use]
    pub fn http2(self) -> Self {
        Server { http2: true, ..self }
    }

    /// Clients speak TLS 1.2 or 1.3, with [`Server::websocket`] as `wss://`. `cert` is a file with
    /// the certificate chain (PEM, the server's own first), `key` one with its private key (PEM).
    /// They are read at the start, and again at the SIGHUP of a program or of [`Server::run`].
    /// `--tls-cert` and `--tls-key` of a program take precedence. A program without the library's
    /// feature `tls` refuses them at the start.
    ///
    /// ```no_run
    /// use roundhouse::prelude::*;
    ///
    /// let hello = lines(|name, reply| {
    ///     reply.put("hello, ").put(name);
    /// });
    /// let server = Server::new(hello).tls("chain.pem", "key.pem").listen("0.0.0.0:7443");
    /// println!("{}", server.spawn().unwrap().address());
    /// ```
    #[must_use]
    pub fn tls(self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let certificate =
            CertificateArgs { tls_cert: Some(cert.into()), tls_key: Some(key.into()) };
        Server { certificate, ..self }
    }

    /// The service pushes bytes from one session to another ([`seam::Cx::push`]): engines whose
    /// sessions live in several workers are refused at the start, with the reason.
    #[must_use]
    pub fn pushes(self) -> Self {
        Server { pushes: true, ..self }
    }

    /// The engine for [`Server::run`] and [`Server::spawn`], by a name that `roundhouse engines`
    /// lists.
    #[must_use]
    pub fn engine(self, name: &str) -> Self {
        Server { engine: name.to_owned(), ..self }
    }

    /// The address for [`Server::run`] and [`Server::spawn`]; port 0 picks a free one.
    #[must_use]
    pub fn listen(self, address: impl ToSocketAddrs) -> Self {
        let found = address.to_socket_addrs().map_err(|error| error.to_string());
        let address = found.and_then(|mut all| all.next().ok_or_else(|| "found none".to_owned()));
        Server { address, ..self }
    }

    /// The bytes from which the state is filled ([`Share::init`]).
    #[must_use]
    pub fn seed(self, seed: impl Into<Vec<u8>>) -> Self {
        Server { seed: seed.into(), ..self }
    }

    /// The file that keeps the state from one run of a program, or of [`Server::run`], to the next:
    /// it is read at the start and replaced at the end. `--state-file` of a program takes
    /// precedence. A program whose state has another layout refuses the file by name, and a killed
    /// one leaves it as it was.
    #[must_use]
    pub fn state_file(self, path: impl Into<PathBuf>) -> Self {
        Server { state_file: Some(path.into()), ..self }
    }

    /// How long a stop of [`Server::run`] and [`Server::spawn`] may take before it is forced.
    #[must_use]
    pub fn drain(self, time: Duration) -> Self {
        Server { drain: Some(time), ..self }
    }

    /// Called by [`Server::run`] with the address when clients can connect.
    #[must_use]
    pub fn on_ready(self, on_ready: fn(SocketAddr)) -> Self {
        Server { on_ready, ..self }
    }

    /// Serves in this thread until SIGTERM or SIGINT, without flags.
    ///
    /// # Errors
    /// Why the server could not start.
    pub fn run(self) -> Result<Report, Fault> {
        let shape = self.shape()?;
        let mut ready = |found: &Started| found.listening.net().into_iter().for_each(self.on_ready);
        let (mut state, control) = (self.state(&shape)?, Control::new().map_err(Fault::Wait)?);
        let report = self.serve(&shape, (&state, &control), true, &mut ready)?;
        keep(&mut state, self.state_file.as_deref()).map_err(refused)?;
        Ok(report)
    }

    /// Serves in a separate thread, and returns when clients can connect. Signals are left to
    /// the program.
    ///
    /// # Errors
    /// Why the server could not start. Engines with worker processes need a program of one thread.
    pub fn spawn(self) -> Result<ServerHandle<S::State>, Fault> {
        let shape = self.shape()?;
        if self.state_file.is_some() {
            let why = "expected `run` or `main` for a state in a file, found `spawn`, whose state \
                       outlives the server";
            return Err(refused(why.to_owned()));
        }
        let state = Arc::new(self.state(&shape)?);
        let control = Arc::new(Control::new().map_err(Fault::Wait)?);
        let (sender, ready) = mpsc::channel();
        let shared = (Arc::clone(&state), Arc::clone(&control));
        // The sender ends with the thread, so a failed start is noticed.
        let serve = move || {
            self.serve(&shape, (&shared.0, &shared.1), false, &mut move |found| {
                if let Some(address) = found.listening.net() {
                    let _ = sender.send(address);
                }
            })
        };
        let thread = std::thread::Builder::new().name("roundhouse".to_owned()).spawn(serve);
        let thread = thread.map_err(Fault::Spawn)?;
        let Ok(address) = ready.recv() else {
            let ended = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            return Err(ended.err().unwrap_or(Fault::DiedAtStartup(0)));
        };
        Ok(ServerHandle { address, state, control, thread: Some(thread) })
    }

    /// Serves as a program, see [`main`](crate::main()). With the first argument `race` the program
    /// becomes `roundhouse race` of itself.
    pub fn main(self) -> ExitCode {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|first| first == "race") {
            return race(arguments);
        }
        let mut flags: Flags = config::parse();
        engines::stderr::never_wait_in_panics();
        if flags.server.certificate.tls_cert.is_none() {
            flags.server.certificate = self.certificate.clone();
        }
        let kept = flags.state_file.clone().or_else(|| self.state_file.clone());
        self.serve_by(&flags.server, kept.as_deref()).unwrap_or_else(|(code, why)| {
            engines::eprintln!("{}: {why}", program());
            ExitCode::from(code)
        })
    }

    /// Serves by flags.
    ///
    /// # Errors
    /// The exit code and the reason.
    fn serve_by(&self, flags: &ServerArgs, kept: Option<&Path>) -> Result<ExitCode, (u8, String)> {
        let usage = |why: &dyn ToString| (2, why.to_string());
        let shape = flags.shape().map_err(|why| usage(&why))?;
        let websocket = flags.websocket(self.websocket.clone().unwrap_or_default());
        let websocket = websocket.or_else(|| self.websocket.clone());
        self.check(&shape, websocket.is_some()).map_err(|why| usage(&why))?;
        let handover = Handover::receive().map_err(|fault| (1, fault.to_string()))?;
        let handover = handover.as_ref();
        let state = flags.state::<S::State>(&shape, handover, "state");
        let mut state = state.map_err(|error| (1, format!("{error:#}")))?;
        if handover.is_none() {
            self.fill(&mut state, kept).map_err(|why| (1, why))?;
        }
        let instance = ServiceInstance {
            name: program(),
            port: PORT,
            tries: &[],
            service: &self.service,
            state: &state,
            assets: &Assets::default(),
            handover,
            grammar: Flags::command,
            facts: &[],
        };
        let mut end = End::default();
        let served = if self.http2 {
            let beside = Beside { protocols: certificate::HTTP2, ..Beside::default() };
            let service = Arc::new(Http2::new(Arc::clone(&self.service)));
            flags.run_layered(&shape, &instance.around(&service), None, beside, &mut end)
        } else {
            flags.run_layered(&shape, &instance, websocket, Beside::default(), &mut end)
        };
        let code =
            served.map_err(|error| (1 + u8::from(error.is::<Refused>()), format!("{error:#}")))?;
        let kept = kept.filter(|_| end.is_last);
        // A server before that still drains changes the state.
        while kept.is_some() && handover.is_some_and(|handover| handover.predecessor().is_some()) {
            std::thread::sleep(LOOK);
        }
        keep(&mut state, kept).map_err(|why| (1, why))?;
        Ok(code)
    }

    /// Fills the state from the file that keeps it, if there is one, else from the seed.
    fn fill(&self, state: &mut Region<S::State>, kept: Option<&Path>) -> Result<(), String> {
        let Some(path) = kept.filter(|path| path.exists()) else {
            return state.init(&self.seed).map_err(|bad| bad.to_string());
        };
        let image = std::fs::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
        let why = match state.restore(&image) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        let path = path.display();
        Err(format!("{path}: {why}; the file is as before; move it away to start without it"))
    }

    fn serve(
        &self,
        shape: &Shape,
        parts: (&Region<S::State>, &Control),
        signals: bool,
        ready: &mut dyn FnMut(&Started),
    ) -> Result<Report, Fault> {
        let service = Arc::clone(&self.service);
        if self.http2 {
            let service = Http2::new(service);
            return self.serve_sealed(service, certificate::HTTP2, shape, parts, signals, ready);
        }
        let Some(options) = self.websocket.clone() else {
            return self.serve_sealed(service, &[], shape, parts, signals, ready);
        };
        let service = WebSocket::new(service, options);
        self.serve_sealed(service, certificate::HTTP, shape, parts, signals, ready)
    }

    /// Serves `inner`, in TLS that offers `protocols` if there is a certificate.
    fn serve_sealed<T: Service<State = S::State> + 'static>(
        &self,
        inner: T,
        protocols: &[&str],
        shape: &Shape,
        parts: (&Region<S::State>, &Control),
        signals: bool,
        ready: &mut dyn FnMut(&Started),
    ) -> Result<Report, Fault> {
        let certificates = Certificates::new(&self.certificate, std::iter::empty());
        match certificates.keys(protocols).map_err(Fault::Refused)? {
            None => self.serve_as(&inner, None, shape, parts, signals, ready),
            #[cfg(feature = "tls")]
            Some(keys) => {
                let tls = Tls::new(inner, keys);
                let renew = certificates.renewal(tls.keys());
                self.serve_as(&tls, Some(&renew), shape, parts, signals, ready)
            }
        }
    }

    fn serve_as<T: Service<State = S::State>>(
        &self,
        service: &T,
        renew: Option<&Renew<'_>>,
        shape: &Shape,
        (state, control): (&Region<S::State>, &Control),
        signals: bool,
        ready: &mut dyn FnMut(&Started),
    ) -> Result<Report, Fault> {
        let address = self
            .address
            .clone()
            .map_err(|why| refused(format!("expected an address such as 127.0.0.1:7000: {why}")))?;
        let host = Host {
            assets: &Assets::default(),
            addresses: vec![address.into()],
            settle: None,
            extra: None,
            verbose: false,
            timer: false,
            signals,
            control,
            state_fd: state.fd(),
            others: &[],
            handover: None,
        };
        let server = engines::Server { service, state, host };
        let admin = Admin { renew, ..Admin::default() };
        engines::run(&server, shape, &mut NoStateStore, admin, ready)
    }

    fn state(&self, shape: &Shape) -> Result<Region<S::State>, Fault> {
        let mut state = Region::<S::State>::place(shape.placement()).map_err(Fault::Wait)?;
        self.fill(&mut state, self.state_file.as_deref()).map_err(refused)?;
        Ok(state)
    }

    fn shape(&self) -> Result<Shape, Fault> {
        let cores = sys::cpu::affinity().map_or(1, |cpus| cpus.len());
        let mut shape = Shape::preset(&self.engine, cores).map_err(Fault::Refused)?;
        shape.knobs.limits.drain = self.drain.unwrap_or(shape.knobs.limits.drain);
        self.check(&shape, self.websocket.is_some())?;
        Ok(shape)
    }

    fn check(&self, shape: &Shape, has_websocket: bool) -> Result<(), Fault> {
        if self.http2 && has_websocket {
            let why = "expected HTTP/2 or WebSocket, found both: a WebSocket is one connection";
            return Err(refused(why.to_owned()));
        }
        if self.service.keeps_state() && shape.container.is_processes() {
            return Err(refused(format!(
                "this service keeps values that its function has captured, of which each worker \
                 process would change a copy, found {shape}: keep them in a state of `share!`, or \
                 choose an engine with one process, such as --engine epoll or --engine reactor; if \
                 they never change, say so by `.constant()`"
            )));
        }
        if !self.pushes || shape.carries() {
            return Ok(());
        }
        Err(refused(format!(
            "this service sends bytes from one session to another, so one worker must have all \
             sessions and wait for all of them at once, found {shape} with {} workers: say \
             --engine epoll, or --engine uring --workers 1",
            shape.workers
        )))
    }
}

/// Whether a server has ended without a successor, which would still change the state.
#[derive(Default)]
struct End {
    is_last: bool,
}

impl<T> StateStore<T> for End {
    fn end(&mut self) {
        self.is_last = true;
    }
}

/// Writes the state to the file that keeps it.
fn keep<T: Share>(state: &mut Region<T>, path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let written = sys::file::replace(path, state.image());
    written.map_err(|why| format!("the state is not kept, because {}: {why}", path.display()))
}

/// A server in a thread of this program. Dropping the handle stops it, and waits until it has
/// drained.
pub struct ServerHandle<T: Share> {
    address: SocketAddr,
    state: Arc<Region<T>>,
    control: Arc<Control>,
    thread: Option<JoinHandle<Result<Report, Fault>>>,
}

impl<T: Share> ServerHandle<T> {
    /// The state that all workers share, for other threads of the program and for tests.
    pub fn state(&self) -> Arc<Region<T>> {
        Arc::clone(&self.state)
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops as SIGTERM does: requests that have arrived are answered, then connections close.
    ///
    /// # Errors
    /// A fault of the running server.
    ///
    /// # Panics
    /// If the server panicked.
    pub fn stop(mut self) -> Result<Report, Fault> {
        self.control.stop();
        let thread = self.thread.take().expect("a handle has its thread until it stops");
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<T: Share> Drop for ServerHandle<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.control.stop();
            // A program that drops its handle has no use for the report.
            let _ = thread.join();
        }
    }
}

/// Races the engines under this program; returns only if that cannot start.
fn race(flags: impl Iterator<Item = OsString>) -> ExitCode {
    let own = std::env::current_exe().unwrap_or_default();
    let mut own = own.display().to_string();
    // A command is split at spaces outside of quotes.
    if own.contains(|c: char| !c.is_alphanumeric() && !"/._-".contains(c)) {
        own = format!("'{}'", own.replace('\'', r"'\''"));
    }
    let mut race = Command::new("roundhouse");
    let why = race.args(["race", "--service", &own]).args(flags).exec();
    engines::eprintln!(
        "{}: expected the program `roundhouse` in a folder of PATH, which races this one: {why}",
        program()
    );
    ExitCode::FAILURE
}

fn refused(why: String) -> Fault {
    Fault::Refused(Refused(why))
}

/// The name by which this program was called.
fn program() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let path = std::env::args_os().next().unwrap_or_default();
        let stem = Path::new(&path).file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    })
}
