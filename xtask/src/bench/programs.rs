//! Benches of programs that run to their end and print figures: generators, servers with their
//! generator. A plan in `experiments/programs/` lists groups of arms. In each block every arm
//! of a group runs once, in a separate order; a row is the median over blocks of the ratio of
//! two arms of the same block, or of one arm's value.
//!
//! Foreign programs have no common format, so an arm names where its numbers are: keys of a JSON
//! line, or texts around a `*`. CPU time of the whole process is read from `/proc` after its end
//! and before it is waited for. With two `counts`, an arm runs with each, and the differences
//! exclude what a program does only once. An arm that fails is left out from then on, with its
//! reason in the table. The record is rewritten after each block, so a stopped bench loses only the
//! last one.

use super::goals::{self, Figure, Values};
use super::prepare;
use super::record::{self, Record};
use crate::steps::{self, Server};
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};
use stats::Goal;
use stats::words::short;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of the plans.
const PLANS: &str = "experiments/programs";
/// A quick bench has this part of the packets.
const QUICK: u64 = 5;
/// A clock tick of `/proc/PID/stat` (ns): a hundred a second on every Linux since 2.6.
const TICK_NS: f64 = 1e7;
/// The time limit of one run.
const PATIENCE: Duration = Duration::from_secs(300);

/// The flags.
struct Ask {
    blocks: usize,
    quick: bool,
    save: bool,
    only: Vec<String>,
}

impl Ask {
    fn parse(args: &[String]) -> anyhow::Result<Ask> {
        let mut ask = Ask { blocks: 8, quick: false, save: false, only: Vec::new() };
        let mut flags = args.iter();
        while let Some(flag) = flags.next() {
            match flag.as_str() {
                "--save" => ask.save = true,
                "--quick" => (ask.quick, ask.blocks) = (true, 1),
                "--blocks" => {
                    let number = flags.next().and_then(|it| it.parse().ok());
                    ask.blocks =
                        number.filter(|it| *it > 0).context("--blocks expects a number")?;
                }
                "--only" => {
                    let names =
                        flags.next().context("--only expects groups, such as closed,open")?;
                    ask.only = names.split(',').map(str::to_owned).collect();
                }
                _ => bail!("expected --save, --quick, --blocks N, --only GROUP,…, found `{flag}`"),
            }
        }
        Ok(ask)
    }
}

/// A plan.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    title: String,
    /// The text for the reader.
    note: String,
    group: Vec<Group>,
}

/// A load under which arms are compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    /// The load and the sink in words.
    load: String,
    /// The command of arms that have none of their own. `{arm}` is replaced by the arm's name,
    /// `{roundhouse}` by our program, `{packets}` by their number, `{address}` by the server's,
    /// `{last}` by the number of the last core, `{count}` by each of `counts` in turn.
    #[serde(default)]
    run: String,
    #[serde(default)]
    packets: u64,
    /// Two numbers of requests: an arm runs with each, and its figures are the differences, which
    /// exclude the work that a program does only once.
    counts: Option<[u64; 2]>,
    #[serde(default)]
    arm: Vec<Arm>,
    value: Quantity,
    /// The arm that all others are compared with; empty: each arm's own value is the figure.
    #[serde(default)]
    base: String,
    #[serde(default)]
    row: Vec<Row>,
}

/// A program, and the server that it talks to.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arm {
    name: String,
    run: String,
    /// The command of a server, which first prints its port, or `{"listening": "ADDRESS:PORT"}`.
    serve: String,
    /// Numbers in the output that are not JSON, as text around a `*`.
    reads: BTreeMap<String, String>,
}

/// The quantity that is read from a run.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quantity {
    what: String,
    /// A number of the output, `late.p99_ns`, or the ratio of two, `cpu_ns / sent`. `process_ns` is
    /// the CPU time of the run, user and system.
    of: String,
    /// Divides the number where it is shown, in `unit`.
    scale: f64,
    unit: String,
}

/// A goal: for left divided by right, or for left alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(default)]
    id: String,
    left: String,
    #[serde(default)]
    right: String,
    goal: Option<String>,
    value: Option<Quantity>,
    /// The reason why the goal is missed, if known.
    #[serde(default)]
    because: String,
}

/// Plays the plan `name`, prints its table and, with `--save`, keeps it in `runs/`.
pub fn run(name: &str, args: &[String]) -> anyhow::Result<()> {
    let ask = Ask::parse(args)?;
    let mut plan = read(name)?;
    let names: Vec<String> = plan.group.iter().map(|it| it.name.clone()).collect();
    if let Some(unknown) = ask.only.iter().find(|it| !names.contains(it)) {
        bail!("expected groups of {}, found `{unknown}`", names.join(", "));
    }
    plan.group.retain(|it| ask.only.is_empty() || ask.only.contains(&it.name));
    let roundhouse = prepare()?;
    let doubts: Vec<String> = record::busy().into_iter().collect();
    let name = ask.only.iter().fold(name.to_owned(), |name, group| name + "-" + group);
    let record = ask.save.then(|| Record::new(&name, &plan.title)).transpose()?;
    let mut figures: Vec<Figure> = Vec::new();
    let groups = plan.group.len();
    for (at, group) in plan.group.iter_mut().enumerate() {
        group.packets /= if ask.quick { QUICK } else { 1 };
        let mut taken = Taken { arms: group.arm.clone(), ..Taken::default() };
        eprintln!("── {}: {} arms, {} blocks", group.name, taken.arms.len(), ask.blocks);
        let before = figures.len();
        for block in 0..ask.blocks {
            taken.block(&roundhouse, group, block);
            figures.truncate(before);
            figures.extend(group.figures(&taken));
            // After each block, so that a bench that is stopped loses only the last one, and its
            // record says where it was stopped.
            if let Some(record) = &record {
                let is_whole = (at + 1, block + 1) == (groups, ask.blocks);
                let stopped = || format!("stopped after block {} of {}", block + 1, group.name);
                let doubts: Vec<String> =
                    doubts.iter().cloned().chain((!is_whole).then(stopped)).collect();
                let lines: Vec<Value> = figures.iter().map(Figure::line).collect();
                record.write(&goals::text(&plan.note, &figures, &doubts), &lines, &doubts)?;
            }
        }
    }
    print!("{}", goals::text(&plan.note, &figures, &doubts));
    if let Some(record) = &record {
        eprintln!("bench: saved in {}", record.folder().display());
    }
    Ok(())
}

/// The names of the plans.
pub fn names() -> anyhow::Result<Vec<String>> {
    super::plans(PLANS)
}

fn read(name: &str) -> anyhow::Result<Plan> {
    let path = crate::root().join(PLANS).join(name).with_extension("toml");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a plan", path.display()))
}

impl Group {
    /// The goals, and the other arms compared with the base.
    fn figures(&self, taken: &Taken) -> Vec<Figure> {
        let mut figures: Vec<Figure> = self.row.iter().map(|row| self.figure(row, taken)).collect();
        for arm in taken.arms.iter().filter(|it| it.name != self.base) {
            let left = arm.name.clone();
            let right = self.base.clone();
            let is_row = |it: &Row| it.left == left && it.right == right && it.value.is_none();
            if self.row.iter().any(is_row) {
                continue;
            }
            let (id, because) = (String::new(), String::new());
            let row = Row { id, left, right, goal: None, value: None, because };
            figures.push(self.figure(&row, taken));
        }
        figures
    }

    fn figure(&self, row: &Row, taken: &Taken) -> Figure {
        let value = row.value.as_ref().unwrap_or(&self.value);
        let shown = |values: &Values| short(values.middle() / value.scale);
        let found = taken.values(&row.left, value).and_then(|mut left| {
            if row.right.is_empty() {
                left.from = format!("{} {}", shown(&left), value.unit);
                left.blocks.iter_mut().for_each(|it| *it /= value.scale);
                return Ok(left);
            }
            let right = taken.values(&row.right, value)?;
            // Differences below a nanosecond are meaningless.
            let each = left.blocks.iter().zip(&right.blocks);
            let blocks = each.map(|(left, right)| left.max(1.0) / right.max(1.0)).collect();
            let from = format!("{} / {} {}", shown(&left), shown(&right), value.unit);
            Ok(Values { blocks, from })
        });
        let sides = [row.left.as_str(), &row.right];
        Figure {
            goal: row.id.clone(),
            name: sides[..if row.right.is_empty() { 1 } else { 2 }].join(" / "),
            what: value.what.clone(),
            load: self.load.clone(),
            wanted: row.goal.as_deref().and_then(|goal| goal.parse::<Goal>().ok()),
            because: row.because.clone(),
            found,
        }
    }
}

/// The outcome of a group's arms.
#[derive(Default)]
struct Taken {
    arms: Vec<Arm>,
    /// By name, the numbers of each block, or the reason why there are none.
    readings: BTreeMap<String, Result<Vec<Value>, String>>,
}

impl Taken {
    /// Runs every arm once. One that fails is left out from then on.
    fn block(&mut self, roundhouse: &Path, group: &Group, block: usize) {
        for at in stats::Rng::new(block as u64).order(self.arms.len()) {
            let arm = &self.arms[at];
            let known = self.readings.entry(arm.name.clone()).or_insert(Ok(Vec::new()));
            let Ok(values) = known else { continue };
            match reading(roundhouse, group, arm) {
                Ok(value) => values.push(value),
                Err(why) => {
                    eprintln!("   {}: {why:#}", arm.name);
                    *known = Err(format!("{}: {why:#}", arm.name));
                }
            }
        }
    }

    /// One quantity of one arm for each block.
    fn values(&self, name: &str, quantity: &Quantity) -> Result<Values, String> {
        let none = || format!("there is no `{name}` here");
        let readings = self.readings.get(name).ok_or_else(none)?.as_ref().map_err(String::clone)?;
        let blocks = readings.iter().map(|it| value(it, &quantity.of)).collect::<Option<_>>();
        let blocks = blocks.ok_or_else(|| format!("{name} does not tell its {}", quantity.what))?;
        Ok(Values { blocks, from: String::new() })
    }
}

/// The number at a path such as `late.p99_ns`, or the ratio of two, without its sign.
fn value(reading: &Value, of: &str) -> Option<f64> {
    if let Some((above, below)) = of.split_once(" / ") {
        return Some(value(reading, above)? / value(reading, below)?.max(1.0));
    }
    of.split('.').try_fold(reading, |at, key| at.get(key))?.as_f64().map(f64::abs)
}

/// The number where `pattern` has its `*`, in the first line that has the text around it.
fn number(text: &str, pattern: &str) -> Option<f64> {
    let (before, after) = pattern.split_once('*')?;
    text.lines().find_map(|line| {
        let rest = &line[line.find(before)? + before.len()..];
        let piece = if after.is_empty() { rest } else { rest.split_once(after)?.0 };
        let mut words = piece.split_whitespace();
        if before.is_empty() { words.next_back() } else { words.next() }?.parse().ok()
    })
}

/// The figures of one run of an arm, or the differences between two.
fn reading(roundhouse: &Path, group: &Group, arm: &Arm) -> anyhow::Result<Value> {
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let command = |line: &str, address: &str, count: u64| {
        let words = line.split_whitespace().map(|word| {
            word.replace("{roundhouse}", &roundhouse.display().to_string())
                .replace("{arm}", &arm.name)
                .replace("{address}", address)
                .replace("{packets}", &group.packets.to_string())
                .replace("{last}", &last.to_string())
                .replace("{count}", &count.to_string())
        });
        let words: Vec<String> = words.collect();
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command.args(words.iter().skip(1)).current_dir(crate::root());
        command
    };
    let server = match arm.serve.as_str() {
        "" => None,
        line => Some(Server::start(&mut command(line, "", 0))?),
    };
    let address = server.as_ref().map_or("", |server| &server.address);
    let line = if arm.run.is_empty() { &group.run } else { &arm.run };
    let once = |count| figures(command(line, address, count), &arm.reads);
    let Some([few, many]) = group.counts else { return once(0).map(Value::Object) };
    let (few, many) = (once(few)?, once(many)?);
    let more = |(name, many): (String, Value)| {
        let difference = many.as_f64()? - few.get(&name)?.as_f64()?;
        Some((name, difference.into()))
    };
    Ok(Value::Object(many.into_iter().filter_map(more).collect()))
}

/// Runs a command to its end; returns the numbers in its output, and its CPU time.
fn figures(
    mut command: Command,
    reads: &BTreeMap<String, String>,
) -> anyhow::Result<Map<String, Value>> {
    let words = steps::line(&command);
    let mut file = tempfile::tempfile().context("a file for the output")?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
    let mut child = command.spawn().with_context(|| format!("start `{words}`"))?;
    let process_ns = process_ns(&mut child);
    let status = child.wait().with_context(|| format!("wait for `{words}`"))?;
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    // A generator exits with 98 if the machine was busy; the table shows that too.
    ensure!(status.success() || status.code() == Some(98), "`{words}`: {status}: {text}");
    let json = text.lines().rev().find(|line| line.starts_with('{'));
    let mut found: Map<String, Value> = json.map_or(Ok(Map::new()), serde_json::from_str)?;
    for (name, pattern) in reads {
        let number = number(&text, pattern);
        let number = number.with_context(|| format!("expected `{pattern}` in {text}"))?;
        found.insert(name.clone(), number.into());
    }
    let is_right = found.get("check").is_none_or(|it| it["ok"] != false)
        && found.get("stress").is_none_or(|it| it["invalid"] == 0 || it.is_null());
    ensure!(is_right, "wrong replies: {text}");
    found.insert("process_ns".to_owned(), process_ns?.into());
    Ok(found)
}

/// The CPU time of a process (ns), read after its end and before the wait for it: at that time it
/// includes all threads (proc_pid_stat(5), fields 14 and 15).
fn process_ns(child: &mut Child) -> anyhow::Result<f64> {
    let path = format!("/proc/{}/stat", child.id());
    let end = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let rest = text.rsplit_once(')').context("expected a name in brackets")?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        if fields.first() == Some(&"Z") {
            let tick = |at: usize| -> anyhow::Result<f64> { Ok(fields[at].parse()?) };
            return Ok((tick(11)? + tick(12)?) * TICK_NS);
        }
        if Instant::now() > end {
            child.kill()?;
            bail!("expected an end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_plan_has_arms_for_its_rows_and_goals_that_can_be_read() {
        for plan in names().unwrap() {
            for group in read(&plan).unwrap().group {
                let takes = |name: &str| group.arm.iter().any(|arm| arm.name == name);
                let rows = group.row.iter().flat_map(|row| [&row.left, &row.right]);
                let mut named = rows.filter(|name| !name.is_empty());
                assert!(named.all(|name| takes(name)), "{plan}, {}", group.name);
                let mut names: Vec<_> = group.arm.iter().map(|arm| &arm.name).collect();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), group.arm.len(), "{}", group.name);
            }
            for group in read(&plan).unwrap().group {
                let figures = group.figures(&Taken::default());
                assert!(figures.iter().all(|it| it.found.is_err()), "nothing ran");
                let wanted = figures.iter().filter(|it| it.wanted.is_some()).count();
                let goals = group.row.iter().filter(|row| row.goal.is_some()).count();
                assert_eq!((figures.len(), wanted), (group.row.len(), goals), "{}", group.name);
            }
        }
    }

    #[test]
    fn ratios_are_of_one_block_and_what_is_missing_says_why() {
        let reading = |cpu: u64| json!({"cpu_ns": cpu, "sent": 10, "late": {"drift_ns": -3}});
        let mut taken = Taken::default();
        taken.readings.insert("a".into(), Ok(vec![reading(40_000), reading(80_000)]));
        taken.readings.insert("b".into(), Ok(vec![reading(20_000), reading(20_000)]));
        taken.readings.insert("c".into(), Err("c: no root".into()));
        let group: Group = toml::from_str(
            "name = 'g'\nload = ''\n\
             value = { what = 'CPU', of = 'cpu_ns / sent', scale = 1e3, unit = 'us' }",
        )
        .unwrap();
        let row = |left: &str, right: &str| {
            let row = format!("left = '{left}'\nright = '{right}'");
            group.figure(&toml::from_str(&row).unwrap(), &taken).found
        };
        let found = row("a", "b").unwrap();
        assert_eq!((found.blocks, found.from.as_str()), (vec![2.0, 4.0], "6.00 / 2.00 us"));
        assert_eq!(row("a", "c"), Err("c: no root".to_owned()));
        assert!(row("d", "a").unwrap_err().contains("`d`"));
        assert_eq!(row("a", "").unwrap().blocks, [4.0, 8.0]);
        assert_eq!(value(&reading(1), "late.drift_ns"), Some(3.0));
        assert_eq!(value(&reading(1), "soak_ns"), None);
    }

    #[test]
    fn numbers_are_found_in_what_programs_print() {
        let wrk = "Running 2s test\n  105996 requests in 2.00s, 9.30MB read\nRequests/sec: 1\n";
        assert_eq!(number(wrk, "* requests in"), Some(105_996.0));
        let h2load = "finished in 2.00s\nrequests: 12 total, 12 started, 11 done, 11 succeeded\n";
        assert_eq!(number(h2load, "* done"), Some(11.0));
        assert_eq!(number("==9== Collected : 123\n", "Collected : *"), Some(123.0));
        assert_eq!(number("nothing", "* done"), None);
    }

    #[test]
    fn a_run_tells_its_figures_and_two_runs_their_difference() {
        let group = |more: &str| -> Group {
            toml::from_str(&format!(
                "name = 'g'\nload = ''\nvalue = {{ what = '', of = 'n', scale = 1, unit = '' }}\n\
                 {more}\n[[arm]]\nname = 'a'\nserve = 'echo 7'\nreads = {{ n = 'n *' }}\n\
                 run = 'echo n {{count}}0 {{address}}'"
            ))
            .unwrap()
        };
        let read = |group: &Group| reading(Path::new("r"), group, &group.arm[0]).unwrap();
        let one = read(&group(""));
        assert_eq!(value(&one, "n"), Some(0.0));
        assert!(one["process_ns"].is_number(), "{one}");
        assert_eq!(value(&read(&group("counts = [2, 9]")), "n"), Some(70.0));
    }
}
