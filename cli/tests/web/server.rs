//! The web server on any engine, and one of each engine side by side.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use testkit::procfs::Family;
use testkit::{Folder, PATIENCE};

const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

/// A running server.
#[derive(derive_more::Deref, derive_more::DerefMut)]
pub struct Server {
    /// The value of `--engine`.
    pub name: String,
    #[deref]
    #[deref_mut]
    server: testkit::Server,
}

impl Server {
    /// Serves `site` and the routes of the demonstration.
    #[track_caller]
    pub fn open(engine: &str, site: &Folder, args: &[&str]) -> Server {
        let mut command = Command::new(BINARY);
        command.args(["serve", "http", "--demo", "--engine", engine]).args(args);
        if !args.contains(&"--port") {
            command.args(["--port", "0"]);
        }
        let server = testkit::Server::start(command.arg(site.path()));
        Server { name: engine.to_owned(), server }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Anonymous memory of the supervisor and its workers, in bytes.
    pub fn memory(&self) -> u64 {
        Family::of(self.pid).memory()
    }

    /// Stops it by `SIGTERM`, waits for the end, and returns its stderr.
    #[track_caller]
    pub fn close(self) -> String {
        let err = self.server.stop().err;
        assert!(err.contains("stopped after"), "{}: no drained stop: {err}", self.name);
        err
    }
}

/// A connection, each wait on which has an end.
pub fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// One server of each named engine that this machine has, started side by side.
pub fn servers(site: &Folder) -> Vec<Server> {
    servers_with(site, |_| Vec::new())
}

/// The same with arguments that `args` gives for each engine.
pub fn servers_with(site: &Folder, args: impl Fn(&str) -> Vec<String> + Sync) -> Vec<Server> {
    std::thread::scope(|scope| {
        let args = &args;
        let start = |name| {
            let args = args(name);
            Server::open(name, site, &args.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let open = |preset: &engines::Preset| {
            let name = preset.name;
            scope.spawn(move || start(name))
        };
        let opened: Vec<_> = testkit::presets().map(open).collect();
        opened.into_iter().map(|it| it.join().expect("a server that is ready")).collect()
    })
}

/// Calls `act` for each server, a thread for each, and fails if one of them fails.
pub fn each(servers: &[Server], act: impl Fn(&Server) + Sync) {
    std::thread::scope(|scope| {
        let act = &act;
        let begun: Vec<_> = servers.iter().map(|it| (it, scope.spawn(move || act(it)))).collect();
        let ended = begun.into_iter().map(|(server, it)| (&server.name, it.join().is_err()));
        let failed: Vec<&String> = ended.filter(|(_, bad)| *bad).map(|(name, _)| name).collect();
        assert!(failed.is_empty(), "these engines failed: {failed:?}");
    });
}
