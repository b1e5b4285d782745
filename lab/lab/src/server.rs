//! A server as a process: started fresh, ready by its announcement or by a TCP connect, stopped by
//! TERM.
//!
//! Standard output and error go to files in the trial's directory, not to pipes: a pipe needs a
//! reader, and a reader that wakes up in the measured window is a disturbance. Every server leads a
//! process group of its own, so that Ctrl-C on the terminal reaches only the laboratory, which then
//! stops its servers gracefully.

use crate::plan::{Arm, Ready, Stop};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A process that leads its own group and cannot be left behind: dropping it kills the group.
pub struct Process {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    stop: Stop,
    /// It takes its port by `{port}` or `$PORT`, so it promises nothing of how it ends.
    is_told_port: bool,
    /// Its standard input, if it has one; it stays open while the process lives.
    _input: Option<ChildStdin>,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessExit {
    /// Its status in words, as `exit 0` or `signal 9`.
    pub how: String,
    /// The process ended within the deadline with status 0. A server that takes its port by
    /// `{port}` may also end by its stop signal.
    pub clean: bool,
}

impl Process {
    /// Starts `command` with output into `dir/NAME.out` and `dir/NAME.err`.
    ///
    /// # Errors
    /// A sentence that names the program and the reason.
    pub fn start(command: &[String], dir: &Path, name: &str) -> Result<Process, String> {
        Process::start_with(command, None, dir, name, |_| ())
    }

    /// Starts `command` as [`Process::start`] does, with `input` as the first part of its standard
    /// input, which ends when this is dropped; `set` gives it its folder and environment.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_with(
        command: &[String],
        input: Option<String>,
        dir: &Path,
        name: &str,
        set: impl FnOnce(&mut Command),
    ) -> Result<Process, String> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| "the command is empty".to_string())?;
        let out = dir.join(format!("{name}.out"));
        let err = dir.join(format!("{name}.err"));
        let file = |path: &Path| {
            File::create(path).map_err(|why| format!("cannot write {}: {why}", path.display()))
        };
        let said = command.join(" ");
        let mut command = Command::new(program);
        // A server or generator must not outlive a laboratory that is killed.
        sys::process::end_with_parent(&mut command, sys::signal::Signal::TERM);
        set(&mut command);
        let mut child = command
            .args(arguments)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(file(&out)?)
            .stderr(file(&err)?)
            .process_group(0)
            .spawn()
            .map_err(|why| format!("`{program}` cannot be started: {why}"))?;
        language::debug!("process {}: {said}", child.id());
        let mut pipe = child.stdin.take();
        if let (Some(pipe), Some(text)) = (&mut pipe, input) {
            // A process that has ended already says why on its standard error.
            _ = pipe.write_all(text.as_bytes());
        }
        Ok(Process { child, out, err, stop: Stop::Term, is_told_port: false, _input: pipe })
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The same for system calls.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The status of the process, if it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of the process, if it has ended.
    pub fn ended(&mut self) -> Option<ProcessExit> {
        self.status().map(ProcessExit::of)
    }

    /// The same, awaited for at most `time`.
    pub fn ended_within(&mut self, time: Duration) -> Option<ProcessExit> {
        let end = Instant::now() + time;
        while self.status().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.ended()
    }

    /// The server's standard output so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// The last lines of standard error, at most three, joined to one; before them the last line
    /// that names an error, where a stack trace follows it.
    pub fn complaint(&self) -> String {
        let text = fs::read(&self.err).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        let (before, last) = lines.split_at(lines.len().saturating_sub(3));
        let names =
            |line: &&&str| ["rror: ", "xception", "panic"].iter().any(|it| line.contains(it));
        let first = match last.iter().find(names) {
            Some(_) => None,
            None => before.iter().rfind(names),
        };
        first.into_iter().chain(last).copied().collect::<Vec<_>>().join(" / ")
    }

    /// The server's standard error so far.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.err).unwrap_or_default()).into_owned()
    }

    /// Sends its stop signal: TERM unless the arm sets another.
    pub fn ask_to_stop(&self) {
        self.signal(self.stop_signal());
    }

    fn stop_signal(&self) -> Signal {
        match self.stop {
            Stop::Term => Signal::TERM,
            Stop::Int => Signal::INT,
            Stop::Quit => Signal::QUIT,
        }
    }

    /// Sends its stop signal, waits until `deadline` has passed, then kills the whole group.
    pub fn stop(self, deadline: Duration) -> ProcessExit {
        self.ask_to_stop();
        self.wait(deadline)
    }

    /// Waits for its end until `deadline` has passed, then kills the whole group.
    pub fn wait(mut self, deadline: Duration) -> ProcessExit {
        let number = self.stop_signal().as_raw();
        // A shell reports the signal of its command as 128 + number.
        let deaths = [format!("signal {number}"), format!("exit {}", 128 + number)];
        if let Some(mut ended) = self.ended_within(deadline) {
            ended.clean |= self.is_told_port && deaths.contains(&ended.how);
            return ended;
        }
        let how = format!("still running after {} ms: killed", deadline.as_millis());
        ProcessExit { how, clean: false }
    }

    /// The folder of its output.
    pub fn folder(&self) -> &Path {
        self.out.parent().unwrap_or(Path::new("."))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // The only possible error is that the process has already ended.
        let _ = kill_process(self.pid(), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Workers that outlived their leader are still in the group. The group's id cannot be
        // reused while one of them lives, and an empty group is not an error here.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl ProcessExit {
    fn of(status: ExitStatus) -> ProcessExit {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => status.to_string(),
        };
        ProcessExit { how, clean: status.success() }
    }
}

/// A server that is ready.
pub struct Server {
    /// Its process.
    pub process: Process,
    /// `HOST:PORT`.
    pub address: String,
    /// The process that its announcement names in its place, because it ran already.
    watched: Option<u32>,
    /// The time from start to readiness.
    pub boot: Duration,
}

/// The address at which a server has to listen, when it does not choose by itself.
pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The values of `{host}` and `{port}`.
type Place = (IpAddr, Option<u16>);

/// The words of a ready server: its address, and the process that is watched in its place.
type Announced = (String, Option<u32>);

impl Server {
    /// The process whose tree's costs are the server's.
    pub fn root(&self) -> u32 {
        self.watched.unwrap_or_else(|| self.process.id())
    }

    /// Whether it was started for the race, so its control group has all its costs.
    pub fn is_started(&self) -> bool {
        self.watched.is_none()
    }

    /// Starts the server of `arm`, with `prefix` before its command, and waits until it is ready.
    /// Its files are written into `dir` first. It has to listen at `host`, which replaces `{host}`,
    /// and may be told `port` by `{port}` or $PORT, a free one in place of 0.
    ///
    /// # Errors
    /// The reason in one sentence: a file could not be written, the server could not be started,
    /// ended at once (with the end of its output), did not become ready within `deadline`, or
    /// listens at a loopback address only.
    pub fn boot(
        (host, port): (IpAddr, u16),
        prefix: &[String],
        arm: &Arm,
        dir: &Path,
        name: &str,
        deadline: Duration,
    ) -> Result<Server, String> {
        let free = match port {
            0 => sys::free_port(host).map_err(|why| format!("no free TCP port: {why}"))?,
            port => port,
        };
        let texts = arm.files.iter().map(|file| &file.text).chain(&arm.command);
        let texts = texts.chain(arm.environment.values());
        let is_named = texts.into_iter().any(|text| text.contains("{port}"));
        let place = (host, is_named.then_some(free));
        for file in &arm.files {
            let path = dir.join(&file.name);
            let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
            folder
                .and_then(|()| fs::write(&path, fill(&file.text, place, dir)))
                .map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        }
        let filled = arm.command.iter().map(|word| fill(word, place, dir));
        let command: Vec<String> = prefix.iter().cloned().chain(filled).collect();
        let begun = Instant::now();
        let mut process = Process::start_with(&command, None, dir, name, |command| {
            command.env("PORT", free.to_string());
            command.envs(arm.environment.iter().map(|(key, text)| (key, fill(text, place, dir))));
            if let Some(folder) = &arm.folder {
                command.current_dir(folder);
            }
        })?;
        process.stop = arm.stop;
        loop {
            // The order matters: the last output of a dead server must be complete.
            let ended = process.ended();
            if let Some((address, watched)) = ready(&process, place, free, &arm.ready)? {
                process.is_told_port = is_named || address.ends_with(&format!(":{free}"));
                let address = reachable(address, host)?;
                let boot = begun.elapsed();
                return Ok(Server { process, address, watched, boot });
            }
            if let Some(ended) = ended {
                let words = process.complaint();
                let words = if words.is_empty() { "no message".to_string() } else { words };
                return Err(format!("ended before it was ready ({}): {words}", ended.how));
            }
            if begun.elapsed() > deadline {
                return Err(silence(&process, place, free, &arm.ready, deadline));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn silence(
    process: &Process,
    (host, port): Place,
    free: u16,
    by: &Ready,
    deadline: Duration,
) -> String {
    let wanted = match (by, port) {
        (Ready::Says(text), _) => format!("the words `{text}`"),
        (Ready::Auto, Some(port)) => format!("a listener on {}", SocketAddr::new(host, port)),
        (Ready::Auto, None) => format!(
            "a first line {{\"listening\": \"HOST:PORT\"}} on stdout, or a listener on port \
             {free}, the value of $PORT"
        ),
    };
    let output = process.output();
    let found = match (process.complaint(), output.lines().next()) {
        (words, None) if words.is_empty() => "nothing".to_string(),
        (words, Some(line)) if words.is_empty() => format!("`{line}`"),
        (words, _) => words,
    };
    format!(
        "expected {wanted} within {} ms, found {found}. A server takes its port by {{port}} in the \
         command or by $PORT; a slow start needs `--boot` of `ab`, `race` and `checkup`, or `boot` \
         in a plan",
        deadline.as_millis()
    )
}

/// The words of a ready server, by its announcement or by a connect to its given port, or to the
/// `free` one of $PORT.
fn ready(
    process: &Process,
    (host, port): Place,
    free: u16,
    by: &Ready,
) -> Result<Option<Announced>, String> {
    let at = |port| (SocketAddr::new(host, port).to_string(), None);
    if let Ready::Says(text) = by {
        let port = port.ok_or("a server that is ready by its words needs {port} somewhere")?;
        let said = process.output().contains(text) || process.errors().contains(text);
        return Ok(said.then(|| at(port)));
    }
    if port.is_none()
        && let Some((line, _)) = process.output().split_once('\n')
        && let Ok(json) = serde_json::from_str::<serde_json::Value>(line)
        && let Some(address) = json.get("listening").and_then(serde_json::Value::as_str)
    {
        let watched = json.get("watched").and_then(serde_json::Value::as_u64);
        let watched = watched.and_then(|pid| u32::try_from(pid).ok());
        return Ok(Some((address.to_string(), watched)));
    }
    Ok(TcpStream::connect((host, port.unwrap_or(free))).ok().map(|_| at(port.unwrap_or(free))))
}

/// The address of a server at `host`, from another machine perhaps.
fn reachable(address: String, host: IpAddr) -> Result<String, String> {
    match address.parse::<SocketAddr>() {
        _ if host.is_loopback() => Ok(address),
        Ok(at) if at.ip() == host => Ok(address),
        Ok(at) if at.ip().is_unspecified() => Ok(SocketAddr::new(host, at.port()).to_string()),
        _ => Err(format!(
            "expected a server that listens at {host}, where the other machine reaches it, found \
             {address}; put {{host}} into its command"
        )),
    }
}

fn fill(word: &str, (host, port): Place, dir: &Path) -> String {
    let word = word.replace("{dir}", &dir.display().to_string());
    let word = word.replace("{host}", &host.to_string());
    match port {
        Some(port) => word.replace("{port}", &port.to_string()),
        None => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::{TempDir, tempdir};

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(String::from).to_vec()
    }

    fn wait_until_gone(pid: &str) {
        let gone = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')),
            Err(_) => true,
        };
        let end = Instant::now() + Duration::from_secs(5);
        while !gone() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(gone(), "process {pid} outlived its parent");
    }

    fn boot(room: &TempDir, arm: &Arm, deadline: Duration) -> Result<Server, String> {
        Server::boot((LOCALHOST, 0), &[], arm, room.path(), "server", deadline)
    }

    fn start(room: &TempDir, script: &str, deadline_ms: u64) -> Result<Server, String> {
        let deadline = Duration::from_millis(deadline_ms);
        boot(room, &Arm { command: shell(script), ..Arm::default() }, deadline)
    }

    /// The servers of a course have no handler for TERM.
    #[test]
    fn a_server_that_is_told_its_port_may_die_of_its_stop_signal() {
        let check = |script: &str, stop, how: &str, clean| {
            let room = tempdir().expect("a temporary directory");
            let ready = Ready::Says("open".to_string());
            let arm = Arm { command: shell(script), ready, stop, ..Arm::default() };
            let deadline = Duration::from_secs(5);
            let server = boot(&room, &arm, deadline).expect("it says so");
            let found = server.process.stop(deadline);
            assert_eq!(found, ProcessExit { how: how.to_string(), clean }, "{script}");
        };
        check("echo open {port}; exec sleep 60", Stop::Term, "signal 15", true);
        let trap =
            |act| format!("trap '{act}' TERM; echo open {{port}}; while :; do sleep 0.01; done");
        check(&trap("exit 143"), Stop::Term, "exit 143", true);
        check(&trap("kill -9 $$"), Stop::Term, "signal 9", false);
    }

    /// A killed laboratory drops nothing.
    #[test]
    fn a_process_ends_with_the_program_that_started_it() {
        let room = tempdir().expect("a temporary directory");
        const ROLE: &str = "LAB_TEST_STARTS_A_PROCESS";
        if let Ok(dir) = std::env::var(ROLE) {
            let child = Process::start(&shell("echo $$; exec sleep 60"), Path::new(&dir), "child")
                .expect("a shell starts");
            while child.output().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::process::exit(1);
        }
        let test = "server::tests::a_process_ends_with_the_program_that_started_it";
        let ended = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", test])
            .env(ROLE, room.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(!ended.expect("it starts").success());
        let child = fs::read_to_string(room.path().join("child.out")).expect("it wrote");
        wait_until_gone(child.trim());
    }

    #[test]
    fn a_server_that_cannot_start_gives_its_last_words() {
        fn check(script: &str, deadline_ms: u64, want: &str) {
            let room = tempdir().expect("a temporary directory");
            let Err(found) = start(&room, script, deadline_ms) else {
                panic!("`{script}` became ready")
            };
            assert!(found.contains(want), "expected `{want}` in `{found}`");
        }
        check("echo no io_uring here >&2; exit 3", 5_000, "(exit 3): no io_uring here");
        check("exit 1", 5_000, "(exit 1): no message");
        check("exec sleep 60", 50, "within 50 ms, found nothing");
        check("echo hello; exec sleep 60", 500, "found `hello`");
        check("exec sleep 60", 50, "`--boot` of `ab`, `race` and `checkup`");
    }

    #[test]
    fn a_server_may_take_its_port_from_the_environment_and_has_its_folder() {
        let room = tempdir().expect("a temporary directory");
        let folder = room.path().join("side");
        fs::create_dir(&folder).expect("a folder");
        let script = "pwd >&2; echo $WORKERS >&2; exec python3 -m http.server $PORT";
        let environment = [("WORKERS".to_string(), "4".to_string())].into();
        let arm =
            Arm { command: shell(script), folder: Some(folder), environment, ..Arm::default() };
        if which::which("python3").is_err() {
            return;
        }
        let deadline = Duration::from_secs(20);
        let server = boot(&room, &arm, deadline).expect("it listens");
        assert!(TcpStream::connect(&server.address).is_ok(), "{}", server.address);
        let said = server.process.errors();
        assert!(said.contains("/side\n4\n"), "{said}");
        assert!(server.process.stop(deadline).clean);
    }

    #[test]
    fn a_server_that_ignores_term_is_killed_with_its_group() {
        let room = tempdir().expect("a temporary directory");
        let script = "trap '' TERM; sleep 60 & echo \"{\\\"listening\\\": \\\"h:$!\\\"}\"; wait";
        let server = start(&room, script, 5_000).expect("it says so");
        let worker = server.address.strip_prefix("h:").expect("it names its worker").to_string();
        let ended = server.process.stop(Duration::from_millis(50));
        assert!(!ended.clean && ended.how.contains("killed"), "{ended:?}");
        wait_until_gone(&worker);
    }

    #[test]
    fn a_server_may_be_ready_by_its_words_and_find_its_files() {
        let room = tempdir().expect("a temporary directory");
        let arm = Arm {
            command: shell(
                "trap 'exit 0' TERM; cat {dir}/etc/conf >&2; while :; do sleep 0.01; done",
            ),
            files: vec![crate::plan::Provision {
                name: "etc/conf".to_string(),
                text: "open on {port} in {dir}".to_string(),
            }],
            ready: Ready::Says("open on ".to_string()),
            ..Arm::default()
        };
        let deadline = Duration::from_secs(5);
        let server = boot(&room, &arm, deadline).expect("it says so");
        let port = server.address.strip_prefix("127.0.0.1:").expect("an address").to_string();
        let want = format!("open on {port} in {}", room.path().display());
        assert!(server.process.errors().contains(&want), "{}", server.process.errors());
        assert!(server.process.stop(deadline).clean);
        let arm = Arm { files: Vec::new(), command: shell("exec sleep 60"), ..arm };
        let Err(found) = boot(&room, &arm, deadline) else {
            panic!("a server without a port became ready")
        };
        assert!(found.contains("needs {port}"), "{found}");
    }

    #[test]
    fn another_machine_reaches_no_loopback_address() {
        let host = IpAddr::from([10, 0, 0, 1]);
        let found = |address: &str| reachable(address.to_string(), host);
        assert_eq!(found("0.0.0.0:80").as_deref(), Ok("10.0.0.1:80"));
        assert_eq!(found("10.0.0.1:80").as_deref(), Ok("10.0.0.1:80"));
        assert!(found("127.0.0.1:80").expect_err("it is local").contains("{host}"));
        assert_eq!(reachable("127.0.0.1:80".to_string(), LOCALHOST).as_deref(), Ok("127.0.0.1:80"));
    }

    #[test]
    fn templates() {
        let dir = Path::new("/d");
        let filled = fill("--at={host}:{port}", (LOCALHOST, Some(5)), dir);
        assert_eq!(filled, "--at=127.0.0.1:5");
        assert_eq!(fill("{dir}/x", (LOCALHOST, None), dir), "/d/x");
    }
}
