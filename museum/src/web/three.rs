//! Three servers under a swarm that grows until something fails.
//!
//! A report of a networks course has three servers in Python: one connection after the other, a
//! process for each, a thread for each. Its swarm grows by 100 users a second until the first
//! failure, which the report takes for the server's limit. The listings show more. Both
//! "concurrent" servers wait for each worker right after starting it, none sends a valid reply, and
//! one cannot end a reply at all. And the first failure need not be the server's: here the client
//! has as few descriptors as on a laptop.
//!
//! In every block the swarm loads three groups of servers: as listed, without a flaw, and with one
//! flaw at a time, so that the cost of each is a ratio and not a guess.

mod cause;
mod report;

#[cfg(test)]
use super::cases::Results;
use super::cases::{self, Case};
use super::locust::{self, Swarm};
use super::servers;
use crate::draft::Draft;
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Clients, Settings, Stage, Web};
use lab::plan::{Arm, Provision};
use stats::words;
use std::time::Duration;

/// The servers.
const PROGRAM: &str = include_str!("../../artefact/three_servers.py");
/// Users a second.
const RATE: u32 = 100;
/// Descriptors of the client, as a laptop's shell gives them.
const DESCRIPTORS: u32 = 256;
/// The published users, and the descriptors of a laptop's shell, near which the published failures
/// came.
const PUBLISHED_USERS: u32 = 10_000;
const LAPTOP: u32 = 2_560;
/// Users at the most where the client has enough.
const USERS: u32 = 250;
/// The limit on a stalled reply, for servers as listed, and for others.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// The groups that are not one flaw.
const LISTED: &str = "as listed";
const SOUND: &str = "corrected";

/// The exhibit.
pub struct ThreeServers;

/// A server of the course.
#[derive(Clone, Copy)]
struct Course {
    name: &'static str,
    kind: &'static str,
    flags: &'static str,
}

const fn server(name: &'static str, kind: &'static str, flags: &'static str) -> Course {
    Course { name, kind, flags }
}

/// As listed, and the one that cannot end a reply without the line that prevents it.
const AS_LISTED: [Course; 4] = [
    server("one process", "single", "--backlog 128 --bare --print"),
    server(NEVER, "process", "--backlog 5 --join --bare --keep --print"),
    server("process for each, closing", "process", "--backlog 5 --join --bare --print"),
    server("thread for each", "thread", "--backlog 5 --join --bare --print"),
];
/// The one that cannot end a reply.
const NEVER: &str = "process for each";
/// The same without a flaw.
const CORRECTED: [Course; 3] = [
    server("one process", "single", ""),
    server("process for each", "process", ""),
    server("thread for each", "thread", ""),
];
/// One flaw at a time; `--keep` by itself shows only where a reply has no length, above.
const FLAWS: [Course; 9] = [
    server("thread for each", "thread", "--join"),
    server("thread for each", "thread", "--bare"),
    server("thread for each", "thread", "--print"),
    server("thread for each", "thread", "--backlog 5"),
    server("process for each", "process", "--join"),
    server("process for each", "process", "--bare"),
    server("process for each", "process", "--print"),
    server("one process", "single", "--bare"),
    server("one process", "single", "--print"),
];
/// Ours.
const OURS: [(&str, &str); 4] = [
    ("ours, one process", "iterative"),
    ("ours, process for each", "fork"),
    ("ours, thread for each", "thread"),
    ("ours, epoll", "epoll"),
];

struct Terms {
    span: Duration,
    users: u32,
    descriptors: u32,
    blocks: u32,
    /// The number in each group.
    sound: usize,
    flaws: usize,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        let (all, flaws) = (CORRECTED.len(), FLAWS.len());
        let (span, users, descriptors, sound, flaws) = match (settings.full, settings.quick) {
            (true, _) => (ms(300_000), PUBLISHED_USERS, LAPTOP, all, flaws),
            (_, true) => (ms(500), 40, 30, 1, 1),
            _ => (ms(3_000), USERS, DESCRIPTORS, all, flaws),
        };
        let blocks = cases::blocks(settings);
        Terms { span, users, descriptors, blocks, sound, flaws }
    }

    /// The number of users grows until a request fails, or all of them are there. With few
    /// descriptors there are twice as many users, so that the descriptors run out.
    fn swarm(&self, is_listed: bool) -> Clients {
        let users = if is_listed { self.users.max(self.descriptors * 2) } else { self.users };
        Clients {
            ramp: Some(f64::from(RATE)),
            timeout: PATIENCE[usize::from(!is_listed)],
            descriptors: is_listed.then_some(self.descriptors),
            ..Clients::new("/", users, self.span)
        }
    }
}

impl Exhibit for ThreeServers {
    fn name(&self) -> &'static str {
        "three-servers"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let swarms = if locust::program().is_some() { swarmed(&terms).count() as u32 } else { 0 };
        let start = Duration::from_secs(4);
        let servers = AS_LISTED.len() + terms.sound + OURS.len() + terms.flaws;
        cases::effort(servers as u32, terms.span, terms.blocks)
            .and(Effort::new(swarms, terms.span + start))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let terms = Terms::of(stage.settings());
        let cases = all_cases(stage, &terms);
        let results = cases::play(stage, cases, terms.blocks)?;
        let mut swarms = Vec::new();
        for (it, group) in swarmed(&terms).filter(|_| python()) {
            let found = swarm(stage, &it, group, &terms)?;
            swarms.extend(found.map(|found| (format!("{}, {group}", it.name), found)));
        }
        if locust::program().is_none() {
            stage.doubt(
                "No Locust is on the path or in ROUNDHOUSE_LOCUST, so only our own swarm ran.",
            );
        }
        Ok(report::draft(&results, &swarms, &terms))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        report::draft(&Results::default(), &[], &Terms::of(settings))
    }
}

fn all_cases(stage: &mut Stage<'_>, terms: &Terms) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |web: Web, group: &str| {
        let (clients, group) = (terms.swarm(group == LISTED), group.to_string());
        all.push(Case { web, clients, x: 0.0, group });
    };
    if python() {
        AS_LISTED.iter().for_each(|it| add(it.web(), LISTED));
        CORRECTED[..terms.sound].iter().for_each(|it| add(it.web(), SOUND));
        FLAWS[..terms.flaws].iter().for_each(|it| add(it.web(), it.flags));
    }
    for (name, engine) in OURS {
        add(servers::ours(stage, name, &format!("--engine {engine}")), SOUND);
    }
    if !python() {
        stage.doubt("No python3 is on the path: the course's servers are left out.");
    }
    all
}

/// The servers for the real tool's swarm: one with invalid replies, and the sound ones.
fn swarmed(terms: &Terms) -> impl Iterator<Item = (Course, &'static str)> {
    let sound = CORRECTED[..terms.sound].iter().map(|it| (*it, SOUND));
    [(AS_LISTED[0], LISTED)].into_iter().chain(sound)
}

fn python() -> bool {
    which::which("python3").is_ok()
}

impl Course {
    fn web(&self) -> Web {
        let words =
            format!("python3 {{dir}}/server.py {} --port {{port}} {}", self.kind, self.flags);
        let file = Provision { name: "server.py".to_string(), text: PROGRAM.to_string() };
        Web {
            name: self.name.to_string(),
            arm: Arm {
                command: words.split_whitespace().map(String::from).collect(),
                files: vec![file],
                ..Arm::default()
            },
            program: None,
            took: None,
        }
    }
}

fn swarm(
    stage: &mut Stage<'_>,
    it: &Course,
    group: &str,
    terms: &Terms,
) -> Result<Option<Swarm>, Fault> {
    if stage.stopped() || locust::program().is_none() {
        return Ok(None);
    }
    let what = format!("{}, {group}, by Locust", it.name);
    stage.begin(&what);
    let up = stage.boot(&it.web())?;
    let found = locust::swarm(stage, &up, (terms.users, RATE), terms.span, 8_192)?;
    if let Some(found) = &found {
        let server = format!("{}, {group}", it.name);
        stage.record(&serde_json::json!({"row": "locust", "server": server, "run": found}))?;
        stage.step(&format!("{what}: {} requests/s", words::number(found.rps)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_servers_are_told_apart_by_their_flaws() {
        assert!(AS_LISTED.iter().all(|it| it.flags.contains("--bare --")));
        assert!(CORRECTED.iter().all(|it| it.flags.is_empty()));
        for flaw in ["--join", "--bare", "--keep", "--print"] {
            assert!(PROGRAM.contains(flaw), "{flaw} is explained");
        }
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("artefact/ramp.py").is_file());
    }

    #[test]
    fn each_flaw_is_compared_with_the_same_server_without_it() {
        for it in FLAWS {
            let same = |other: &&Course| (other.name, other.kind) == (it.name, it.kind);
            assert!(CORRECTED.iter().any(|other| same(&other)), "{}", it.name);
            assert_eq!(it.flags.matches("--").count(), 1, "{}", it.flags);
        }
    }

    #[test]
    fn at_full_size_it_is_as_published() {
        let full = Settings { full: true, ..Settings::default() };
        let terms = Terms::of(&full);
        assert_eq!((terms.users, RATE, terms.span.as_secs()), (10_000, 100, 5 * 60));
    }
}
