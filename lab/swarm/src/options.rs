//! The fields of the master's page: options by name to the plan of a pool.
//!
//! Values arrive as Locust parsed them: a number, or typed text. Each is therefore converted to
//! text and parsed like the flags of `roundhouse load`. A missing field has its default, so that a
//! user's own locustfile can leave all of them out.

use crate::crew::{Problem, UserTargets};
use crate::message::Options;
use load::drive::Settings;
use load::parse::{self, Mix, Scheme, Target};
use load::run::Workload;
use load::script::{HttpOptions, LineOptions, StockOptions};
use load::user_pool::{Behaviour, PoolPlan};
use load::work::Think;
use rmpv::Value;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A class of our locustfile: its name, its protocol, the option with its target, the default.
const CLASSES: [(&str, Scheme, &str, &str); 4] = [
    ("StockUser", Scheme::Stock, "stock_target", "stock://127.0.0.1:6000"),
    ("WebUser", Scheme::Http, "http_target", "http://127.0.0.1:8000/"),
    ("EchoUser", Scheme::Echo, "echo_target", "echo://127.0.0.1:6001"),
    ("LineUser", Scheme::Line, "line_target", "line://127.0.0.1:6379"),
];

/// The maximum number of requests a second per user.
const RATE_MAX: f64 = 1e6;
/// The maximum number of requests sent together.
const DEPTH_MAX: u32 = 100_000;
/// The maximum number of batches of a session.
const ROUNDS_MAX: u64 = 1_000_000_000;
/// The maximum number of connections of a worker in the open and partly open models.
const CONNECTIONS_MAX: usize = 1_000_000;
/// Distance between the random streams of two workers.
const STREAM: u64 = 1 << 52;

/// The plan for users of `class` of worker `index`.
///
/// # Errors
/// The first invalid field.
pub fn plan(class: &str, targets: &UserTargets, index: u64) -> Result<PoolPlan, Problem> {
    let fields = Fields(&targets.options);
    let target = target(class, targets.host.as_deref(), &targets.options)?;
    // Workers of one swarm must not send the same requests at the same time.
    let seed = fields.number("seed", 1, 0..=u64::MAX)?;
    let seed = seed.wrapping_add(index.wrapping_mul(STREAM));
    let per_connection = fields.number("requests_per_connection", 0, 0..=u64::MAX)?;
    let settings = Settings {
        connections: fields.number("connections", 64, 1..=CONNECTIONS_MAX)?,
        requests_per_connection: (per_connection > 0).then_some(per_connection),
        detailed: true,
        ..Settings::default()
    };
    let workload = fields.workload(&target, seed)?;
    let behaviour = fields.behaviour()?;
    Ok(PoolPlan { target, workload, behaviour, settings, sources: Vec::new(), seed })
}

/// The target of users of `class`: the host for all classes if its scheme fits, otherwise the one
/// in their option. A class that is not in our locustfile uses the scheme of the host.
fn target(class: &str, host: Option<&str>, options: &Options) -> Result<Target, Problem> {
    let place = format!("the target of {class}");
    let parsed = |text: &str| {
        text.parse::<Target>().map_err(|e| Problem { what: e.to_string(), place: place.clone() })
    };
    let ours = CLASSES.iter().find(|(name, ..)| *name == class);
    match (ours, host) {
        (None, Some(host)) => parsed(host),
        (None, None) => {
            let names = CLASSES.map(|(name, ..)| name).join(", ");
            let what = format!(
                "expected users of class {names}, or a host such as stock://127.0.0.1:6000 that \
                 says what others speak, found class {class} and no host"
            );
            Err(Problem { what, place })
        }
        (Some(&(_, scheme, option, default)), host) => {
            if let Some(host) = host.filter(|host| speaks(host, scheme)) {
                return parsed(host);
            }
            let text = Fields(options).text(option).unwrap_or_else(|| default.to_owned());
            parsed(&text)
        }
    }
}

/// Whether an address has this scheme; one without a scheme fits any.
fn speaks(host: &str, scheme: Scheme) -> bool {
    host.split_once("://").is_none_or(|(word, _)| word == scheme.name())
}

/// Options as texts.
struct Fields<'a>(&'a Options);

impl Fields<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let text = match self.0.0.get(name)? {
            Value::Nil => return None,
            Value::String(text) => text.as_str()?.trim().to_owned(),
            other => other.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    fn parsed<T: FromStr<Err: Display>>(&self, name: &str, default: T) -> Result<T, Problem> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|e: T::Err| problem(name, &e))
    }

    fn number<T>(&self, name: &str, default: T, range: RangeInclusive<T>) -> Result<T, Problem>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            problem(name, &format!("expected a number from {least} to {most}, found `{text}`"))
        })
    }

    fn word(&self, name: &str, words: &[&'static str]) -> Result<&'static str, Problem> {
        let Some(text) = self.text(name) else { return Ok(words[0]) };
        words.iter().copied().find(|word| *word == text).ok_or_else(|| {
            problem(name, &format!("expected {}, found `{text}`", words.join(" or ")))
        })
    }

    fn behaviour(&self) -> Result<Behaviour, Problem> {
        let depth = self.number("depth", 1, 1..=DEPTH_MAX)?;
        let think = self.parsed("think", Think::None)?;
        // Tiny rates would overflow the time of the next arrival.
        let rate_per_user = self.number("rate_per_user", 1.0, 1e-6..=RATE_MAX)?;
        let constant = self.word("arrivals", &["poisson", "constant"])? == "constant";
        let rounds = self.number("session_requests", 10, 1..=ROUNDS_MAX)?;
        Ok(match self.word("model", &["closed", "open", "sessions"])? {
            "open" => Behaviour::Open { rate_per_user, constant, depth },
            "sessions" => Behaviour::Sessions { rate_per_user, constant, rounds, depth, think },
            _ => Behaviour::Closed { depth, think },
        })
    }

    fn workload(&self, target: &Target, seed: u64) -> Result<Workload, Problem> {
        Ok(match target.scheme {
            Scheme::Stock => {
                let framing = self.text("framing").unwrap_or_else(|| "line".to_owned());
                Workload::Stock(StockOptions {
                    mix: self.parsed("mix", Mix::default())?,
                    amount_max: self.number("amount_max", 10, 1..=100_000)?,
                    framing: framing.parse().map_err(|e| problem("framing", &e))?,
                    seed,
                    ..StockOptions::default()
                })
            }
            Scheme::Http => {
                let paths = self.paths(target)?;
                Workload::Http(HttpOptions::get(&target.authority, paths, seed))
            }
            Scheme::Echo => Workload::Echo,
            Scheme::Line => {
                let bytes = |name: &str, default: &str| {
                    let text = self.text(name).unwrap_or_else(|| default.to_owned());
                    parse::bytes(&text).map_err(|e| problem(name, &e))
                };
                Workload::Line(LineOptions {
                    requests: vec![bytes("line_request", r"PING\r\n")?],
                    terminator: bytes("line_terminator", r"\r\n")?,
                    terminators: 1,
                    prefix: Vec::new(),
                })
            }
        })
    }

    /// `/a=3,/b`: paths with weights; without the field, the target's own path.
    fn paths(&self, target: &Target) -> Result<Vec<(String, u32)>, Problem> {
        let Some(text) = self.text("paths") else { return Ok(vec![(target.path.clone(), 1)]) };
        let path = |part: &str| {
            let (path, weight) = part.trim().rsplit_once('=').unwrap_or((part.trim(), "1"));
            let weight = weight.parse().ok().filter(|weight| (1..=1_000_000).contains(weight));
            weight.map(|weight| (path.to_owned(), weight)).ok_or_else(|| {
                let expected = "expected paths such as /,/index.html=3, found";
                problem("paths", &format!("{expected} `{part}`"))
            })
        };
        text.split(',').map(path).collect()
    }
}

fn problem(field: &str, why: &dyn Display) -> Problem {
    Problem { what: format!("{field}: {why}"), place: format!("the field `{field}`") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Users;
    use std::time::Duration;

    fn order(host: Option<&str>, fields: &[(&str, Value)]) -> UserTargets {
        let named = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        UserTargets {
            users: Users::new(),
            host: host.map(str::to_owned),
            options: Options(named.collect()),
            stop_timeout: Duration::ZERO,
            fresh: true,
            index: 1,
        }
    }

    fn read(class: &str, fields: &[(&str, Value)]) -> PoolPlan {
        plan(class, &order(None, fields), 1).unwrap_or_else(|e| panic!("{fields:?}: {e:?}"))
    }

    fn check_refused(class: &str, field: &str, value: Value, part: &str) {
        let targets = order(None, &[(field, value)]);
        let Err(problem) = plan(class, &targets, 1) else { panic!("{targets:?} was taken") };
        assert!(problem.what.contains(part), "expected {part:?} in {}", problem.what);
        assert!(problem.what.contains(field), "expected {field} in {}", problem.what);
    }

    #[test]
    fn fields_that_are_not_there_have_defaults() {
        let bare = read("StockUser", &[]);
        assert_eq!(bare.behaviour, Behaviour::Closed { depth: 1, think: Think::None });
        assert_eq!((bare.settings.connections, bare.settings.requests_per_connection), (64, None));
        let Workload::Stock(stock) = &bare.workload else { panic!("a market is spoken to") };
        assert_eq!((stock.mix, stock.seed), (Mix::default(), 1 + STREAM));
        assert_eq!(read("StockUser", &[("depth", Value::Nil), ("mix", "".into())]), bare);
    }

    #[test]
    fn numbers_are_read_as_numbers_and_as_texts() {
        let typed = read(
            "StockUser",
            &[("model", "closed".into()), ("think", "10ms".into()), ("depth", " 4 ".into())],
        );
        let think = Think::Fixed(Duration::from_millis(10));
        assert_eq!(typed.behaviour, Behaviour::Closed { depth: 4, think });
        let sent = read(
            "EchoUser",
            &[
                ("model", "open".into()),
                ("rate_per_user", 1000.into()),
                ("arrivals", "constant".into()),
                ("connections", 16.into()),
                ("requests_per_connection", "3".into()),
            ],
        );
        let open = Behaviour::Open { rate_per_user: 1000.0, constant: true, depth: 1 };
        assert_eq!(sent.behaviour, open);
        let partly = read(
            "WebUser",
            &[
                ("model", "sessions".into()),
                ("rate_per_user", 0.5.into()),
                ("session_requests", 4.into()),
                ("think", "10ms".into()),
            ],
        );
        let sessions =
            Behaviour::Sessions { rate_per_user: 0.5, constant: false, rounds: 4, depth: 1, think };
        assert_eq!(partly.behaviour, sessions);
        assert_eq!(
            (sent.settings.connections, sent.settings.requests_per_connection),
            (16, Some(3))
        );
    }

    #[test]
    fn what_is_asked_of_web_and_line_servers() {
        let Workload::Http(web) = read("WebUser", &[("paths", "/a=3, /b".into())]).workload else {
            panic!("pages are got")
        };
        let paths: Vec<_> = web.requests.iter().map(|it| (it.path.as_str(), it.weight)).collect();
        assert_eq!(paths, [("/a", 3), ("/b", 1)]);
        let Workload::Line(line) =
            read("LineUser", &[("line_request", r"INCR x\r\n".into())]).workload
        else {
            panic!("lines are said")
        };
        assert_eq!(
            (line.requests[0].as_slice(), line.terminator.as_slice()),
            (&b"INCR x\r\n"[..], &b"\r\n"[..])
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        check_refused("StockUser", "model", "opne".into(), "closed or open or sessions");
        check_refused("StockUser", "session_requests", 0.into(), "from 1 to");
        check_refused("StockUser", "rate_per_user", 0.into(), "found `0`");
        check_refused("StockUser", "rate_per_user", f64::NAN.into(), "expected a number");
        check_refused("StockUser", "depth", "many".into(), "from 1 to 100000");
        check_refused("StockUser", "mix", "foo=1".into(), "expected a mix");
        check_refused("StockUser", "framing", "odd".into(), "framing");
        check_refused("StockUser", "think", "long".into(), "expected a pause");
        check_refused("StockUser", "arrivals", "late".into(), "poisson or constant");
        check_refused("StockUser", "seed", (-1).into(), "found `-1`");
        check_refused("WebUser", "paths", "/a=0".into(), "expected paths");
        check_refused("LineUser", "line_request", r"\q".into(), "found `\\q`");
    }

    #[test]
    fn a_host_is_for_those_who_speak_it() {
        let set = order(None, &[("http_target", "http://127.0.0.1:81/a".into())]).options;
        let check = |class: &str, host: Option<&str>, expected: &str| {
            assert_eq!(target(class, host, &set).map(|found| found.text), Ok(expected.to_owned()));
        };
        check("StockUser", None, "stock://127.0.0.1:6000");
        check("StockUser", Some("stock://127.0.0.1:7"), "stock://127.0.0.1:7");
        check("WebUser", Some("stock://127.0.0.1:7"), "http://127.0.0.1:81/a");
        check("Mine", Some("echo://127.0.0.1:7"), "echo://127.0.0.1:7");
        let refused = |class: &str, host| target(class, host, &set).expect_err("refused").what;
        assert!(refused("Mine", None).contains("found class Mine"));
        assert!(refused("StockUser", Some("127.0.0.1:7")).contains("expected"));
    }
}
