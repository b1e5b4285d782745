//! Stage of the swarm tests: masters, workers and a market as child processes, each wait
//! with an end, and a relay that can fall silent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use testkit::{PATIENCE, Process, Server, skip, wait_for};

pub const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");
pub const LOCUSTFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/swarm/locustfile.py");
/// The market of a test.
pub struct Scene {
    pub market: String,
    _server: Server,
}

pub struct Master {
    pub process: Process,
    locust: PathBuf,
    pub port: u16,
    pub web: SocketAddr,
}

pub struct Worker {
    pub process: Process,
    pub name: String,
}

/// Waits for something to be there.
#[track_caller]
pub fn wait<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_for(what, PATIENCE, look)
}

/// The first line of JSON on stdout that `is_it`.
pub fn json(process: &Process, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
    let out = process.out();
    out.lines().filter_map(|line| serde_json::from_str(line).ok()).find(|value| is_it(value))
}

impl Scene {
    pub fn new() -> Self {
        let words = ["serve", "stock", "--engine", "epoll", "--port", "0"];
        let server = Server::start(Command::new(EXE).args(words));
        let market = format!("stock://{}", server.address);
        Self { market, _server: server }
    }
}

impl Master {
    /// A master for users of one class, whose page answers.
    pub fn start(locust: &Path) -> Self {
        Self::start_with(locust, &[], 3)
    }

    pub fn start_with(locust: &Path, ports: &[u16], tries: u32) -> Self {
        let free = free_ports();
        let [port, web] = [0, 1].map(|at| ports.get(at).copied().unwrap_or(free[at]));
        let mut command = Command::new(locust);
        command.args(["--master", "-f", LOCUSTFILE, "StockUser", "--web-host", "127.0.0.1"]);
        command.args(["--master-bind-host", "127.0.0.1"]);
        command.args(["--master-bind-port", &port.to_string(), "--web-port", &web.to_string()]);
        let mut process = Process::start(&mut command);
        let web = SocketAddr::from(([127, 0, 0, 1], web));
        let stands = wait("the master's page answers", || match process.status() {
            Some(_) => Some(false),
            None => http(web, "GET", "/stats/requests", "").map(|_| true),
        });
        if !stands {
            // Another process has taken the port in the meantime.
            assert!(tries > 1, "expected a master, found its end: {}", process.said());
            return Self::start_with(locust, ports, tries - 1);
        }
        Self { process, locust: locust.to_owned(), port, web }
    }

    /// Kills it and starts another on the same ports.
    pub fn again(mut self) -> Self {
        self.process.kill();
        Self::start_with(&self.locust, &[self.port, self.web.port()], 3)
    }

    pub fn get(&self, path: &str) -> String {
        wait(path, || http(self.web, "GET", path, ""))
    }

    fn stats(&self) -> Value {
        serde_json::from_str(&self.get("/stats/requests")).expect("the page's numbers are JSON")
    }

    /// Asks for `users` users, with the fields `more` of the page.
    pub fn swarm(&self, users: u64, host: &str, more: &str) {
        let form = format!("user_count={users}&spawn_rate={users}&host={host}&{more}");
        let answer = http(self.web, "POST", "/swarm", &form).expect("the master answers");
        assert!(
            answer.contains("\"success\": true") || answer.contains("\"success\":true"),
            "{answer}"
        );
    }

    /// Stops the test and waits until every worker is ready for another. A master without users
    /// answers before that. A test that starts then may never stop, because the master takes the
    /// moment without workers for the end of the new test.
    #[track_caller]
    pub fn stop(&self) {
        let ready = || self.process.err().matches("reported as ready").count() as u64;
        let before = ready();
        let workers = self.stats()["worker_count"].as_u64().expect("a number");
        // Older masters want a GET.
        let stopped = http(self.web, "POST", "/stop", "");
        stopped.or_else(|| http(self.web, "GET", "/stop", "")).expect("the master answers");
        wait("all workers are ready again", || (ready() >= before + workers).then_some(()));
    }

    #[track_caller]
    pub fn wait_for(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        wait(what, || Some(self.stats()).filter(&is_it))
    }

    #[track_caller]
    pub fn wait_for_workers(&self, count: u64) {
        self.wait_for("all workers are known", |stats| stats["worker_count"] == count);
    }

    #[track_caller]
    pub fn wait_for_users(&self, count: u64) {
        self.wait_for("all users are there", |stats| stats["user_count"] == count);
    }

    /// Waits until `more` more requests were counted.
    #[track_caller]
    pub fn wait_for_requests(&self, more: u64) {
        let count = |stats: &Value| {
            let rows = stats["stats"].as_array().expect("rows");
            rows.last().map_or(0, |row| row["num_requests"].as_u64().expect("a number"))
        };
        let before = count(&self.stats());
        self.wait_for("requests are counted", |stats| count(stats) >= before + more);
    }

    /// The CSV file of its statistics: rows by name, each field by its heading.
    pub fn csv(&self, path: &str) -> Vec<(String, Vec<(String, String)>)> {
        let text = self.get(path);
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
        let head: Vec<String> = lines.next().expect("a heading").collect();
        let row = |fields: Vec<(String, String)>| {
            let name = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case("name"));
            (name.expect("a name").1.clone(), fields)
        };
        lines.map(|line| row(head.iter().cloned().zip(line).collect())).collect()
    }
}

pub fn field<'a>(row: &'a (String, Vec<(String, String)>), heading: &str) -> &'a str {
    let found = row.1.iter().find(|(key, _)| key == heading);
    &found.unwrap_or_else(|| panic!("no {heading} in {row:?}")).1
}

pub fn number(row: &(String, Vec<(String, String)>), heading: &str) -> f64 {
    let text = field(row, heading);
    text.parse().unwrap_or_else(|_| panic!("{heading}: expected a number, found {text}"))
}

impl Worker {
    pub fn start(port: u16, name: &str) -> Self {
        Self::start_with(port, name, &[])
    }

    pub fn start_with(port: u16, name: &str, more: &[&str]) -> Self {
        let master = format!("127.0.0.1:{port}");
        let mut command = Command::new(EXE);
        command.args(["swarm", "--master", &master, "--name", name]).args(more);
        Self { process: Process::start(&mut command), name: name.to_owned() }
    }

    /// Its counts of a test that is over.
    pub fn account(&self, test: u64) -> Value {
        wait("the worker's account", || json(&self.process, |value| value["test"] == test))
    }

    #[track_caller]
    pub fn wait_for_end(&mut self) -> Option<i32> {
        wait("the worker ends", || self.process.status()).code()
    }
}

/// Two ports that were free a moment ago, below the range from which the kernel assigns ports to
/// sockets that request none (ip(7), `ip_local_port_range`). So no other socket gets them by
/// chance.
pub fn free_ports() -> [u16; 2] {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize * 64;
    [0, 1].map(|_| {
        let free = |_| {
            let at = first + NEXT.fetch_add(1, Ordering::Relaxed);
            let port = 12_000 + (at % 20_000) as u16;
            TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(port)
        };
        (0..1_000).find_map(free).expect("a free port")
    })
}

/// A request and the body of its answer; `None` if there is none, or it is no success.
pub fn http(to: SocketAddr, method: &str, path: &str, form: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).ok()?;
    // `/stop` answers when all workers have stopped.
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {to}\r\nContent-Length: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|status| *status == "200")?;
    Some(body.to_owned())
}

/// The masters to test; reports if there is none.
pub fn locusts() -> Vec<PathBuf> {
    let named = std::env::var("ROUNDHOUSE_LOCUST").unwrap_or_else(|_| "locust".to_owned());
    let paths: Vec<PathBuf> = named.split(':').map(PathBuf::from).collect();
    let works = |path: &PathBuf| {
        let output = Command::new(path).arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found: Vec<PathBuf> = paths.into_iter().filter(works).collect();
    if found.is_empty() {
        skip("locust");
    }
    found
}

/// Forwards bytes until [`Relay::cut`]; then it discards them and keeps every connection open.
pub struct Relay {
    pub port: u16,
    cut: Arc<Cut>,
}

/// Connections with a number up to `upward` forward nothing to the master, those up to `downward`
/// nothing to the worker.
#[derive(Default)]
struct Cut {
    made: AtomicUsize,
    upward: AtomicUsize,
    downward: AtomicUsize,
}

impl Relay {
    pub fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound above").port();
        let cut = Arc::new(Cut::default());
        let shared = Arc::clone(&cut);
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(onward) = TcpStream::connect(to) else { continue };
                let number = shared.made.fetch_add(1, Ordering::SeqCst) + 1;
                for (from, to, up) in [(&from, &onward, true), (&onward, &from, false)] {
                    let pair = (from.try_clone(), to.try_clone());
                    let (Ok(from), Ok(to)) = pair else { continue };
                    let shared = Arc::clone(&shared);
                    std::thread::spawn(move || {
                        pass(from, to, || {
                            let cut = if up { &shared.upward } else { &shared.downward };
                            number > cut.load(Ordering::SeqCst)
                        });
                    });
                }
            }
        });
        Self { port, cut }
    }

    /// Silences every present connection: first upward, so that the worker surely gets the answers
    /// to all that the master has received, then downward.
    pub fn cut(&self) {
        let made = self.cut.made.load(Ordering::SeqCst);
        self.cut.upward.store(made, Ordering::SeqCst);
        std::thread::sleep(Duration::from_secs(2));
        self.cut.downward.store(made, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, may_pass: impl Fn() -> bool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if may_pass() && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
