//! The servers that compute: ours and real Apache, with the same interface.

use crate::exhibit::Fault;
use crate::stage::{Clients, Stage, Up, Web};
use lab::plan::{Arm, Provision};
use std::time::Duration;

/// The static page of every server.
const INDEX: &str = "<!doctype html>\n<title>Hello</title>\n<p>Hello, World!\n";
/// The two lengths of the loop from which its cost is calibrated.
const ROUNDS: [u64; 2] = [50_000, 550_000];

/// Directives about processes and threads, in Apache's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directives {
    /// The name in the study.
    pub name: &'static str,
    /// `ServerLimit`.
    pub processes_max: u32,
    /// `StartServers`.
    pub start: u32,
    /// `MaxClients`, since 2.4 `MaxRequestWorkers`.
    pub workers: u32,
    /// `MinSpareThreads`.
    pub spare_min: u32,
    /// `MaxSpareThreads`.
    pub spare_max: u32,
    /// `ThreadsPerChild`.
    pub threads: u32,
}

impl Directives {
    /// The flags of our engine `worker`.
    pub fn flags(&self, policy: &str) -> String {
        let Directives { start, workers, spare_min, spare_max, threads, .. } = self;
        let moving = match policy {
            "static" => String::new(),
            _ => format!("--start {start} --spare-min {spare_min} --spare-max {spare_max}"),
        };
        format!(
            "--engine worker --policy {policy} --threads {threads} --workers {workers} {moving}"
        )
    }

    /// Apache's names and the values, in the order of the study's tables.
    pub fn rows(&self) -> [(&'static str, u32); 6] {
        [
            ("ServerLimit", self.processes_max),
            ("StartServers", self.start),
            ("MaxRequestWorkers", self.workers),
            ("MinSpareThreads", self.spare_min),
            ("MaxSpareThreads", self.spare_max),
            ("ThreadsPerChild", self.threads),
        ]
    }
}

/// The deadline of ours with the governor: twice the response time that the wobbling load of the
/// study's directives has on one core.
pub const DEADLINE: Duration = Duration::from_millis(300);
/// Its flags.
pub const GOVERNOR: &str = "--governor on --deadline 300ms";

/// The servers that compute: ours by engine, the first one the baseline, and Apache by module.
pub const OURS: [(&str, &str); 2] = [("ours, processes", "prefork"), ("ours, threads", "pool")];
pub const REAL: [(&str, &str); 3] =
    [("Apache, prefork", "prefork"), ("Apache, worker", "worker"), ("Apache, event", "event")];

/// Their names in tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    OURS.iter().chain(&REAL).map(|it| it.0)
}

fn table(rows: impl IntoIterator<Item = (&'static str, u32)>) -> toml::Table {
    rows.into_iter().map(|(name, it)| (name.to_string(), i64::from(it).into())).collect()
}

/// A server of ours with the routes of the demonstration.
pub fn ours(stage: &Stage<'_>, name: &str, flags: &str) -> Web {
    let words = format!(
        "serve http {{dir}}/www --demo --port 0 --access-log {{dir}}/took.log --log-format json \
         {flags}"
    );
    let exe = stage.settings().exe.display().to_string();
    let command = [exe].into_iter().chain(words.split_whitespace().map(String::from)).collect();
    let index = Provision { name: "www/index.html".to_string(), text: INDEX.to_string() };
    Web {
        name: name.to_string(),
        arm: Arm { command, files: vec![index], ..Arm::default() },
        program: None,
        took: Some("took.log".to_string()),
    }
}

/// Apache with the processing module `module` and these directives on top of its defaults.
///
/// # Errors
/// Only if a directive is invalid, which is a fault of the exhibit.
pub fn apache(name: &str, module: &str, directives: toml::Table) -> Result<Web, Fault> {
    let arm = peers::apache::computing(module, &directives)
        .map_err(|why| Fault::Server(format!("{name}: {why}")))?;
    Ok(Web {
        name: name.to_string(),
        arm,
        program: Some(peers::apache::PROGRAM.to_string()),
        took: Some(peers::apache::TOOK.to_string()),
    })
}

/// Apache's worker module with the study's directives, or its event module.
///
/// # Errors
/// As [`apache`].
pub fn hybrid(name: &str, module: &str, directives: &Directives) -> Result<Web, Fault> {
    apache(name, module, table(directives.rows()))
}

/// Apache's prefork module with the study's directives, in its own words: a process is a worker.
///
/// # Errors
/// As [`apache`].
pub fn prefork(name: &str, directives: &Directives) -> Result<Web, Fault> {
    let Directives { start, workers, spare_min, spare_max, .. } = *directives;
    let rows = [
        ("StartServers", start),
        ("MinSpareServers", spare_min),
        ("MaxSpareServers", spare_max),
        ("ServerLimit", workers),
        ("MaxRequestWorkers", workers),
    ];
    apache(name, "prefork", table(rows))
}

/// Apache with a fixed number of workers, in any of its modules.
///
/// # Errors
/// As [`apache`].
pub fn fixed(name: &str, module: &str, workers: u32) -> Result<Web, Fault> {
    let rows: Vec<(&'static str, u32)> = match module {
        "prefork" => vec![
            ("StartServers", workers),
            ("MinSpareServers", workers),
            ("MaxSpareServers", workers + 1),
            ("ServerLimit", workers),
            ("MaxRequestWorkers", workers),
        ],
        _ => {
            let processes = workers.div_ceil(50);
            vec![
                ("ServerLimit", processes),
                ("StartServers", processes),
                ("ThreadsPerChild", 50),
                ("MaxRequestWorkers", processes * 50),
                ("MinSpareThreads", processes * 50),
                ("MaxSpareThreads", processes * 50 + 50),
            ]
        }
    };
    apache(name, module, table(rows))
}

/// The reason why Apache is left out, if it is.
pub fn apache_lacks() -> Option<String> {
    peers::apache::is_here().err().map(|why| format!("Apache is left out: {why}."))
}

/// The number of calibration attempts, each longer than the last: on a busy machine a short run may
/// contain no request at all.
const ATTEMPTS: u32 = 3;

/// The cost of a round, from a short and a long loop.
fn slope(stage: &mut Stage<'_>, up: &mut Up, span: Duration) -> Result<Option<f64>, Fault> {
    let mut costs = Vec::new();
    for rounds in ROUNDS {
        let path = format!("/work?rounds={rounds}");
        let run = stage.ask(up, &Clients::new(&path, 1, span))?;
        costs.extend(run.and_then(|run| run.cpu_per_request_ns()));
    }
    let [short, long] = costs[..] else { return Ok(None) };
    let round_ns = (long - short) / (ROUNDS[1] - ROUNDS[0]) as f64;
    Ok((round_ns > 0.0).then_some(round_ns))
}

/// The calibration that lets both servers compute for the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Toil {
    /// Nanoseconds of CPU for one round of Apache's loop; `None` without an Apache.
    pub round_ns: Option<f64>,
}

impl Toil {
    /// Measures Apache's loop on this machine: the slope between a short and a long one excludes
    /// the fixed cost of a request.
    ///
    /// # Errors
    /// If Apache is installed and does not start.
    pub fn calibrate(stage: &mut Stage<'_>) -> Result<Toil, Fault> {
        if let Some(why) = apache_lacks() {
            stage.doubt(why);
            return Ok(Toil { round_ns: None });
        }
        stage.begin("calibrating Apache's loop");
        let mut span = Duration::from_millis(if stage.settings().quick { 200 } else { 700 });
        let mut up = stage.boot(&fixed("calibration", "worker", 50)?)?;
        let mut round_ns = None;
        for _ in 0..ATTEMPTS {
            round_ns = slope(stage, &mut up, span)?;
            if round_ns.is_some() || stage.stopped() {
                break;
            }
            span *= 3;
        }
        up.server.process.stop(Duration::from_secs(10));
        if round_ns.is_none() {
            stage.doubt("Apache's loop could not be calibrated, so Apache is left out.");
        }
        Ok(Toil { round_ns })
    }

    /// The path for our server.
    pub fn ours(self, work: Duration) -> String {
        format!("/work?ms={}", work.as_millis())
    }

    /// The path for Apache; `None` without an Apache.
    pub fn apache(self, work: Duration) -> Option<String> {
        let rounds = work.as_nanos() as f64 / self.round_ns?;
        Some(format!("/work?rounds={rounds:.0}"))
    }

    /// As a row of facts.
    pub fn fact(self) -> (String, String) {
        let words = match self.round_ns {
            Some(ns) => format!("a round of Apache's loop takes {ns:.2} ns of CPU here"),
            None => "no Apache to calibrate".to_string(),
        };
        ("Computing".to_string(), words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_directives_are_said_to_both() {
        let all = super::super::study::THREADS;
        assert!(all.flags("apache").ends_with("--start 1 --spare-min 25 --spare-max 75"));
        assert!(!all.flags("static").contains("--start"));
        let web = hybrid("apache", "worker", &all).expect("they are directives");
        let conf = &web.arm.files.iter().find(|it| it.name == "httpd.conf").expect("one").text;
        for want in ["ServerLimit 3\n", "MaxSpareThreads 75\n", "ThreadsPerChild 50\n"] {
            assert!(conf.contains(want), "expected `{want}` in\n{conf}");
        }
        let web = prefork("apache", &all).expect("they are directives");
        let conf = &web.arm.files.iter().find(|it| it.name == "httpd.conf").expect("one").text;
        assert!(conf.contains("MaxSpareServers 75\n") && !conf.contains("Threads"), "{conf}");
        assert!(fixed("x", "event", 120).is_ok_and(|it| it.program.is_some()));
    }

    #[test]
    fn work_is_asked_in_the_words_of_each() {
        let work = Duration::from_millis(5);
        let toil = Toil { round_ns: Some(5.0) };
        assert_eq!(toil.ours(work), "/work?ms=5");
        assert_eq!(toil.apache(work).as_deref(), Some("/work?rounds=1000000"));
        assert_eq!(Toil { round_ns: None }.apache(work), None);
    }
}
