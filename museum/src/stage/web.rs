//! A web server and its clients: started fresh, watched, loaded, stopped.
//!
//! The clients are those of a published study (`roundhouse load --connect-apart`), on the other
//! core where there are two. Next to their own figures the run records what is visible of the
//! server from outside: CPU time, started and ended processes and threads, context switches, the
//! kernel's counts, and the times of requests inside the server by its own log.

use super::tree::{self, Churn, Switches, Watcher};
use super::{GLANCE, PATIENCE, Stage};
use crate::exhibit::Fault;
use lab::cost::CostWatch;
use lab::load::Load;
use lab::machine::{Conditions, Watch};
use lab::plan::Arm;
use lab::runner::pin;
use lab::server::{LOCALHOST, Process, Server};
use meter::TreeCost;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The clients' time limit beyond their own duration: a reply may stall for its timeout.
const SLACK: Duration = Duration::from_secs(40);
/// The interval between two readings of the clients' own context switches.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Web {
    pub name: String,
    /// The server's command and settings.
    pub arm: Arm,
    /// The file of the arm that is a program.
    pub program: Option<String>,
    /// The file in which it logs the time of each request inside, one a line, if it does.
    pub took: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Clients {
    pub path: String,
    /// Several files with weights, as `/=9,/cgi/page=1`, in place of the one.
    pub mix: Option<String>,
    pub clients: u32,
    /// Clients that come and go.
    pub guests: u32,
    /// The length of a guest's stay.
    pub stay: Duration,
    /// Clients come at this rate, until the first failure.
    pub ramp: Option<f64>,
    pub span: Duration,
    /// The warm-up: replies within it do not count, nor do threads that begin or end.
    pub warmup: Duration,
    /// The limit on a stall of a connect or a reply.
    pub timeout: Duration,
    /// Descriptors that the client program may open.
    pub descriptors: Option<u32>,
    /// The time for which the server is watched after the clients have left.
    pub linger: Duration,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WebRun {
    /// The clients' own figures.
    pub load: ClientRun,
    /// CPU time of the server's tree, nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of programs that no process waited for, as those of Apache's mod_cgid, from the
    /// server's start to its end: known where it has a control group.
    #[serde(default)]
    pub unwaited_ns: u64,
    /// Processes and threads that came and went, also after the clients had gone.
    pub churn: Churn,
    /// The time at which the clients had left, seconds from the first reading.
    pub gone_s: f64,
    /// Context switches of threads that lived from beginning to end.
    pub switches: Switches,
    /// Context switches of the rest of the machine meanwhile, clients left out: other programs,
    /// and short-lived processes of the server.
    pub rest_switches: u64,
    /// The times of requests inside the server, by its own log.
    pub inside: Option<Inside>,
    /// The other activity of the machine, from the server's start to its end.
    pub conditions: Conditions,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    pub count: u64,
    /// Their mean, nanoseconds.
    pub mean_ns: f64,
}

/// The generator's report, with what only exhibits read of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientRun {
    /// The fields that the laboratory reads.
    #[serde(flatten)]
    pub load: Load,
    /// Replies without an end of their head.
    #[serde(default)]
    pub malformed: u64,
    #[serde(default)]
    pub first_failure: Option<First>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct First {
    pub at_ms: f64,
    pub after_requests: u64,
    /// Clients that had come.
    pub users: u32,
    pub kind: String,
    pub words: String,
}

impl Clients {
    pub fn new(path: &str, clients: u32, span: Duration) -> Clients {
        Clients {
            path: path.to_string(),
            clients,
            stay: Duration::from_secs(2),
            span,
            timeout: Duration::from_secs(30),
            ..Clients::default()
        }
    }

    fn command(&self, exe: &Path, address: &str) -> Vec<String> {
        let mut words = vec![exe.display().to_string(), "load".to_string()];
        words.push(format!("http://{address}{}", self.path));
        let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
        let us = |span: Duration| format!("{}us", span.as_micros());
        if let Some(mix) = &self.mix {
            flag("--mix", mix.clone());
        }
        flag("--header", "Connection: close".to_string());
        flag("--requests-per-connection", "1".to_string());
        flag("--closed", self.clients.to_string());
        flag("--for", us(self.span));
        flag("--warmup", us(self.warmup));
        flag("--timeout", us(self.timeout));
        if self.guests > 0 {
            flag("--guests", self.guests.to_string());
            flag("--stay", us(self.stay));
        }
        if let Some(rate) = self.ramp {
            flag("--ramp", rate.to_string());
            words.push("--until-failure".to_string());
        }
        words.extend(["--connect-apart", "--malformed", "--json"].map(str::to_string));
        match self.descriptors {
            None => words,
            Some(most) => {
                let script = format!("ulimit -n {most}; exec \"$@\"");
                let shell = ["sh".to_string(), "-c".to_string(), script, "sh".to_string()];
                shell.into_iter().chain(words).collect()
            }
        }
    }
}

impl ClientRun {
    /// Finds the report in the generator's output.
    fn parse(output: &str) -> Result<ClientRun, String> {
        Load::parse(output)?;
        let line = output.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        serde_json::from_str(line).map_err(|why| why.to_string())
    }
}

impl WebRun {
    /// CPU time of the server for each request, nanoseconds.
    pub fn cpu_per_request_ns(&self) -> Option<f64> {
        let all = self.load.load.requests_total;
        (all > 0).then(|| self.cpu_ns as f64 / all as f64)
    }
}

/// A running server, with the directory of its files.
pub struct Up {
    pub server: Server,
    pub dir: PathBuf,
    cost: CostWatch,
}

impl Stage<'_> {
    /// Starts a server on the first core, in a separate directory.
    ///
    /// # Errors
    /// If it does not become ready.
    pub fn boot(&mut self, web: &Web) -> Result<Up, Fault> {
        let dir = self.folder("server")?;
        let cannot = |why| Fault::File(format!("cannot use {}: {why}", dir.display()));
        // Servers that root starts answer as another user.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).map_err(cannot)?;
        let cost = CostWatch::new(&web.name);
        let prefix = [cost.prefix(), self.pinned(false)].concat();
        let name = web.name.clone();
        let server = Server::boot((LOCALHOST, 0), &prefix, &web.arm, &dir, "server", PATIENCE)
            .map_err(|why| Fault::Server(format!("{name}: {why}")))?;
        if let Some(program) = &web.program {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(dir.join(program), mode).map_err(cannot)?;
        }
        Ok(Up { server, dir, cost })
    }

    /// Runs the clients against a fresh server, and repeats the run if the machine was not quiet
    /// meanwhile.
    ///
    /// # Errors
    /// If the server does not start, the clients do not finish, or the visitor stopped the run.
    pub fn meet(&mut self, web: &Web, clients: &Clients) -> Result<WebRun, Fault> {
        let quick = self.settings.quick;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let watch = Watch::start();
            let run = self.meet_once(web, clients)?;
            let run = WebRun { conditions: watch.stop_beside(run.unwaited_ns), ..run };
            let again = self.quiet.repeats(&run.conditions, attempt, quick);
            self.record(&json!({
                "row": "web", "server": web.name, "command": web.arm.command, "clients": clients,
                "attempt": attempt, "counted": !again, "run": run,
            }))?;
            if !again {
                return Ok(run);
            }
        }
    }

    fn meet_once(&mut self, web: &Web, clients: &Clients) -> Result<WebRun, Fault> {
        self.goes_on()?;
        let mut up = self.boot(web)?;
        let mut run = self.ask(&mut up, clients)?;
        up.cost.ending();
        let Up { server, dir, cost } = up;
        server.process.stop(PATIENCE);
        run.unwaited_ns = cost.unwaited_ns();
        run.inside = web.took.as_ref().and_then(|file| inside(&dir.join(file)));
        // A server's logs after a million requests are long.
        let _ = fs::remove_dir_all(&dir);
        Ok(run)
    }

    /// Runs the clients against a running server, and watches it meanwhile.
    ///
    /// # Errors
    /// If the clients do not finish, the server has ended, or the visitor stopped the run.
    pub fn ask(&mut self, up: &mut Up, clients: &Clients) -> Result<WebRun, Fault> {
        let root = up.server.process.id();
        let gone = |why| Fault::Server(format!("it ended: {why}"));
        let mut command = self.pinned(true);
        command.extend(clients.command(&self.settings.exe, &up.server.address));
        let machine = tree::machine_switches();
        let before = TreeCost::read(root).map_err(gone)?;
        up.cost.mark();
        let watcher = Watcher::start(root, clients.warmup);
        let begun = Instant::now();
        let mut program = Process::start(&command, &up.dir, "clients").map_err(Fault::Clients)?;
        let (mut own, mut looked) = (Switches::default(), Instant::now());
        let look = |program: &Process| {
            if clients.mix.is_some() && looked.elapsed() > LOOK {
                // The last look before its end is the best that can be had.
                let now = TreeCost::read(program.id()).map(|it| Switches::of(&it));
                own = now.ok().filter(|it| it.all() > 0).unwrap_or(own);
                looked = Instant::now();
            }
        };
        let limit = clients.span + clients.timeout + SLACK;
        let ended = self.attend(&mut program, limit, look)?;
        let gone_s = begun.elapsed().as_secs_f64();
        let after = TreeCost::read(root).map_err(gone)?;
        // The tree's ended processes are known to a tick each.
        let cpu_ns = match up.cost.since_mark(1) {
            Some(life) => life.user_ns + life.system_ns,
            None => after.since(&before).cpu_ns,
        };
        let switches = Switches::of(&after).since(Switches::of(&before));
        let machine = tree::machine_switches().zip(machine).map_or(0, |(a, b)| a - b);
        let rest_switches = machine.saturating_sub(switches.all() + own.all());
        let until = Instant::now() + clients.linger;
        while Instant::now() < until && !self.stopped() {
            sleep(GLANCE);
        }
        let churn = watcher.end();
        let load = ClientRun::parse(&program.output()).map_err(|why| {
            Fault::Clients(format!("{why} ({}): {}", ended.how, program.complaint()))
        })?;
        let run = WebRun { load, cpu_ns, churn, gone_s, switches, ..WebRun::default() };
        Ok(WebRun { rest_switches, ..run })
    }

    /// The words that keep a program on the servers' core, or on the clients'.
    pub(crate) fn pinned(&self, client: bool) -> Vec<String> {
        let Some(placement) = &self.placement else { return Vec::new() };
        let (server, other) = placement.cores(false);
        pin(&self.settings.exe, if client { other } else { server })
    }
}

/// Reads a log of times: a number of microseconds a line, or an object with `us`.
fn inside(path: &Path) -> Option<Inside> {
    let text = fs::read_to_string(path).ok()?;
    let us = text.lines().filter_map(|line| match line.rsplit_once("\"us\":") {
        Some((_, rest)) => rest.trim_end_matches('}').parse::<f64>().ok(),
        None => line.trim().parse().ok(),
    });
    let (count, sum) = us.fold((0_u64, 0.0), |(count, sum), us| (count + 1, sum + us));
    (count > 0).then(|| Inside { count, mean_ns: sum * 1e3 / count as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_told_what_the_clients_do() {
        let mut clients = Clients::new("/work?ms=2", 20, Duration::from_secs(3));
        let words = clients.command(Path::new("r"), "127.0.0.1:7").join(" ");
        assert!(
            words.starts_with("r load http://127.0.0.1:7/work?ms=2 --header Connection: close")
        );
        assert!(words.ends_with("--connect-apart --malformed --json"), "{words}");
        assert!(words.contains("--for 3000000us") && !words.contains("--guests"), "{words}");
        clients.descriptors = Some(64);
        (clients.guests, clients.ramp) = (12, Some(100.0));
        let words = clients.command(Path::new("r"), "h:1").join(" ");
        assert!(words.starts_with("sh -c ulimit -n 64; exec \"$@\" sh r load"), "{words}");
        assert!(words.contains("--guests 12 --stay 2000000us"), "{words}");
        assert!(words.contains("--ramp 100 --until-failure"), "{words}");
    }
}
