//! The space that is searched: families of servers with the axes of their settings.
//!
//! A family is an engine, or a foreign server. An axis is one setting with its values in order; its
//! usual value is the server's own default, and a candidate names only what differs from that.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A server with settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// The engine, or the foreign server.
    pub server: String,
    /// Settings that differ from the server's own: name and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(String, String)>,
}

impl Candidate {
    /// A server with its own settings.
    pub fn usual(server: &str) -> Candidate {
        Candidate { server: server.to_string(), settings: Vec::new() }
    }

    /// The value of a setting, if it differs from the usual one.
    fn value(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    fn with(&self, axis: &Knob, value: &str) -> Candidate {
        let mut settings = self.settings.clone();
        settings.retain(|it| it.0 != axis.name);
        if value != axis.usual {
            settings.push((axis.name.clone(), value.to_string()));
        }
        settings.sort();
        Candidate { server: self.server.clone(), settings }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server)?;
        self.settings.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// One setting with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The flag without its dashes, or the directive.
    pub name: String,
    /// The values in order.
    pub values: Vec<String>,
    /// The value that the server takes by itself; one of the values.
    pub usual: String,
    /// The thing of which a worker serves one at a time, if the setting is a number of workers.
    pub each: Option<PerWorker>,
}

/// The thing of which a worker serves one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerWorker {
    /// A slow request.
    Request,
    /// A client, until it leaves.
    Client,
}

/// A server and its axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The engine, or the foreign server.
    pub server: String,
    /// Its settings.
    pub axes: Vec<Knob>,
}

/// The numbers of a workload and a machine that bound the space.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Cores for the server.
    pub cores: usize,
    /// Connections that send requests.
    pub connections: usize,
    /// Connections that stay silent.
    pub silent: usize,
    /// Requests in the server at once: the rate times the time of a request that waits for no
    /// other (Little, *A proof for the queuing formula L = λW*, 1961).
    pub in_flight: f64,
    /// Whether connections end and new ones come.
    pub churns: bool,
}

/// All candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The families.
    pub families: Vec<Family>,
    /// The server that is used where nothing is proven better.
    pub default: Candidate,
}

/// Connections that an engine with a worker for each can have.
const WORKERS_MAX: usize = 2046;
/// Descriptors that select can watch.
const SELECT_MAX: usize = 1000;
/// Workers for each request in flight, so that chance arrivals find an idle one.
const RESERVE: f64 = 1.5;

fn axis(name: &str, values: &[usize], usual: usize, each: Option<PerWorker>) -> Knob {
    let mut values = values.to_vec();
    values.push(usual);
    values.sort_unstable();
    values.dedup();
    let values = values.iter().map(ToString::to_string).collect();
    Knob { name: name.to_string(), values, usual: usual.to_string(), each }
}

fn choice(name: &str, values: &[&str]) -> Knob {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    Knob { name: name.to_string(), usual: values[0].clone(), values, each: None }
}

impl Space {
    /// Our engines, for a workload.
    pub fn engines(facts: &Facts) -> Space {
        let cores = facts.cores.max(1);
        let crowd = [4, 8, 16, 32, 64, 128, 256];
        let requests = Some(PerWorker::Request);
        let clients = Some(PerWorker::Client);
        let helpers = |usual| axis("helpers", &[0, 4, 8, 16, 32, 64], usual, requests);
        let loops = |usual| axis("workers", &[1, cores, 2 * cores, 4 * cores], usual, None);
        let threads = || axis("threads", &[8, 16, 25, 50], 25, None);
        let policy = |usual| match usual {
            "static" => choice("policy", &["static", "damped", "apache"]),
            _ => choice("policy", &["damped", "apache", "static"]),
        };
        let edge = || choice("edge", &["false", "true"]);
        let mut families: Vec<(&str, Vec<Knob>)> = vec![
            ("epoll", vec![helpers(4), edge()]),
            ("amped", vec![axis("helpers", &[4, 8, 16, 32, 64], 16, requests)]),
            (
                "reactor",
                vec![loops(cores), helpers(4), choice("container", &["threads", "processes"])],
            ),
            ("uring", vec![loops(cores), helpers(4)]),
            ("port", vec![axis("threads", &[1, 2, 4, 8, 16, 32, 64], 2 * cores, requests)]),
            ("poll", vec![helpers(4)]),
            ("pool", vec![axis("workers", &crowd, 16, clients)]),
            (
                "prefork",
                vec![
                    axis("workers", &crowd, 16, clients),
                    policy("static"),
                    choice("accept", &["shared", "lock", "pass"]),
                ],
            ),
            ("worker", vec![threads(), policy("damped")]),
            ("event", vec![threads(), policy("damped")]),
        ];
        let open = facts.connections + facts.silent;
        if open <= SELECT_MAX {
            families.push(("select", vec![helpers(4)]));
        }
        if open <= WORKERS_MAX {
            families.extend([("thread", Vec::new()), ("fork", Vec::new())]);
        }
        if facts.connections == 1 && facts.silent == 0 {
            families.push(("iterative", Vec::new()));
        }
        let families = families.into_iter().map(|(server, mut axes)| {
            if facts.churns {
                axes.push(axis("backlog", &[128, 1024], 4096, None));
            }
            Family { server: server.to_string(), axes }
        });
        Space { families: families.collect(), default: Candidate::usual("epoll") }
    }

    /// A foreign server with its directives; `None` for one without a template.
    pub fn foreign(server: &str, facts: &Facts) -> Option<Space> {
        let cores = facts.cores.max(1);
        let processes = [1, 2, 4, 8];
        let axes = match server {
            "nginx" => vec![
                axis("worker_processes", &processes, cores, None),
                choice("multi_accept", &["off", "on"]),
                choice("accept_mutex", &["off", "on"]),
            ],
            // Defaults of Apache 2.4's documentation, mpm_common.
            "apache-worker" | "apache-event" => vec![
                axis("ThreadsPerChild", &[5, 10, 25, 50, 64], 25, None),
                axis("StartServers", &[1, 3, 8, 16], 3, None),
                axis("MinSpareThreads", &[25, 75, 150], 75, None),
                axis("MaxSpareThreads", &[75, 150, 250, 400], 250, None),
            ],
            "apache-prefork" => vec![
                axis("StartServers", &[5, 16, 64, 128], 5, Some(PerWorker::Client)),
                axis("MinSpareServers", &[5, 16, 64], 5, None),
                axis("MaxSpareServers", &[10, 32, 128, 256], 10, None),
            ],
            "redis" => vec![axis("io-threads", &[1, 2, 4], 1, None)],
            _ => return None,
        };
        let families = vec![Family { server: server.to_string(), axes }];
        Some(Space { families, default: Candidate::usual(server) })
    }

    /// Keeps the families of these names only; the default becomes the first of them if its own
    /// family goes.
    ///
    /// # Errors
    /// The name that no family has.
    pub fn only(&mut self, names: &[String]) -> Result<(), String> {
        let known: Vec<String> = self.families.iter().map(|it| it.server.clone()).collect();
        if let Some(other) = names.iter().find(|it| !known.contains(it)) {
            let known = known.join(", ");
            return Err(format!("expected servers that fit this load, {known}, found `{other}`"));
        }
        self.families.retain(|it| names.contains(&it.server));
        if !names.contains(&self.default.server) {
            self.default = Candidate::usual(names.first().map_or("", String::as_str));
        }
        Ok(())
    }

    /// Whether the candidate's server fits the load.
    pub fn has(&self, candidate: &Candidate) -> bool {
        self.family(candidate).is_some()
    }

    fn family(&self, candidate: &Candidate) -> Option<&Family> {
        self.families.iter().find(|it| it.server == candidate.server)
    }

    /// The requests that a candidate works on at once; `None` where nothing bounds them.
    pub fn crowd(&self, candidate: &Candidate) -> Option<usize> {
        let axes = self.family(candidate)?.axes.iter().filter(|axis| axis.each.is_some());
        let values = axes.map(|axis| candidate.value(&axis.name).unwrap_or(&axis.usual));
        values.filter_map(|value| value.parse().ok()).min()
    }

    /// The candidates that a search begins with: each server with its own settings, with enough
    /// workers for the requests in flight, or for each connection.
    pub fn seeds(&self, facts: &Facts) -> Vec<Candidate> {
        let mut found = vec![self.default.clone()];
        for family in &self.families {
            let usual = Candidate::usual(&family.server);
            found.push(usual.clone());
            for axis in &family.axes {
                let wanted = match axis.each {
                    None => continue,
                    Some(PerWorker::Request) => RESERVE * facts.in_flight,
                    Some(PerWorker::Client) => facts.connections as f64,
                };
                let fits = |value: &&String| value.parse().is_ok_and(|it: f64| it >= wanted);
                if let Some(value) = axis.values.iter().find(fits).filter(|_| !fits(&&axis.usual)) {
                    found.push(usual.with(axis, value));
                }
            }
        }
        distinct(found)
    }

    /// The candidates one step away from `candidate` on one axis, and those with the usual value of
    /// one.
    pub fn neighbours(&self, candidate: &Candidate) -> Vec<Candidate> {
        let mut found = Vec::new();
        for axis in self.family(candidate).iter().flat_map(|family| &family.axes) {
            let now = candidate.value(&axis.name).unwrap_or(&axis.usual);
            let Some(at) = axis.values.iter().position(|value| value == now) else { continue };
            let near = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
            let values = near.filter_map(|at| axis.values.get(at));
            let values = values.chain((now != axis.usual).then_some(&axis.usual));
            found.extend(values.map(|value| candidate.with(axis, value)));
        }
        distinct(found)
    }

    /// The number of candidates in all.
    pub fn size(&self) -> usize {
        let product = |it: &Family| it.axes.iter().map(|axis| axis.values.len()).product::<usize>();
        self.families.iter().map(product).sum()
    }
}

pub(crate) fn distinct(all: impl IntoIterator<Item = Candidate>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for candidate in all {
        if !found.contains(&candidate) {
            found.push(candidate);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { cores: 2, connections: 64, in_flight: 8.0, ..Facts::default() }
    }

    #[test]
    fn seeds_have_room_for_the_requests_in_flight_and_for_all_connections() {
        let seeds = Space::engines(&facts()).seeds(&facts());
        let names: Vec<String> = seeds.iter().map(ToString::to_string).collect();
        assert_eq!(names[0], "epoll", "the default comes first, once: {names:?}");
        assert_eq!(names.iter().filter(|name| *name == "epoll").count(), 1);
        for wanted in ["pool", "pool workers=64", "epoll helpers=16", "port threads=16", "fork"] {
            assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
        }
        // 1.5 times 8 requests in flight are 12, for which the usual 16 helpers suffice.
        assert!(!names.iter().any(|name| name.starts_with("amped helpers")), "{names:?}");
    }

    #[test]
    fn a_load_excludes_what_cannot_carry_it() {
        let many = Facts { silent: 3_000, ..facts() };
        let servers: Vec<String> =
            Space::engines(&many).families.into_iter().map(|it| it.server).collect();
        for gone in ["select", "thread", "fork", "iterative"] {
            assert!(!servers.iter().any(|it| it == gone), "{gone}");
        }
        assert!(!Space::engines(&many).has(&Candidate::usual("thread")));
        let churn = Space::engines(&Facts { churns: true, ..facts() });
        assert!(churn.families.iter().all(|it| it.axes.iter().any(|it| it.name == "backlog")));
    }

    #[test]
    fn neighbours_are_one_step_away_and_usual_values_are_left_out() {
        let space = Space::engines(&facts());
        let near = |candidate: &Candidate| -> Vec<String> {
            space.neighbours(candidate).iter().map(ToString::to_string).collect()
        };
        let epoll = Candidate::usual("epoll");
        assert_eq!(near(&epoll), ["epoll helpers=0", "epoll helpers=8", "epoll edge=true"]);
        let eight = &space.neighbours(&epoll)[1];
        assert_eq!(near(eight)[..2], ["epoll", "epoll helpers=16"]);
        assert_eq!((space.crowd(&epoll), space.crowd(eight)), (Some(4), Some(8)));
        assert!(near(&Candidate::usual("none")).is_empty());
        assert!(space.size() > 150, "{}", space.size());
    }

    #[test]
    fn a_space_can_be_narrowed_to_servers_by_name() {
        let mut space = Space::engines(&facts());
        let why = space.only(&["epol".to_string()]).expect_err("no such engine");
        assert!(why.contains("found `epol`") && why.contains("epoll, amped"), "{why}");
        space.only(&["uring".to_string(), "pool".to_string()]).expect("two engines");
        assert_eq!((space.families.len(), space.default.server.as_str()), (2, "uring"));
        let worker = Space::foreign("apache-worker", &facts()).expect("a template");
        assert!(worker.neighbours(&worker.default).len() >= 6);
        assert_eq!(Space::foreign("caddy", &facts()), None);
    }
}
