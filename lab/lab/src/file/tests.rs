//! Facts about plan files.
//!
//! A test is the text of a plan file and the plan that must come of it, or the message about its
//! fault. `resolve` stands for the servers that the laboratory does not know. No process is
//! started.

use super::*;
use crate::plan::Model;

fn resolve(spec: &ArmSpec) -> Result<Arm> {
    let command = spec.command.clone().or(spec.engine.clone()).context("nobody we know")?;
    Ok(Arm {
        command: command.split(' ').map(String::from).collect(),
        target: "stock://{address}".to_string(),
        ..Arm::default()
    })
}

fn plan(text: &str) -> Result<Plan> {
    PlanFile::parse(text)?.plan(Path::new("."), vec![PointSpec::closed(8, 1, 64)], resolve)
}

#[test]
fn two_builds_are_raced_by_two_lines() {
    let found = plan("arms.old = './old --port {port}'\narms.new = './new --port {port}'");
    let plan = found.expect("a plan");
    plan.check().expect("a good plan");
    let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!((names, plan.baseline.as_str()), (vec!["old", "new"], "old"));
    assert_eq!(plan.arms[1].command, ["./new", "--port", "{port}"]);
    assert_eq!((plan.blocks, plan.label.as_str(), plan.twin), (10, "claim", true));
    assert_eq!(plan.question, "Which is best: old or new?");
    assert_eq!(plan.registered(&plan.points[0]), [Metric::Throughput, Metric::Cpu]);
}

#[test]
fn everything_can_be_said() {
    let text = r#"
        question = "Which wait is best?"
        baseline = "epoll"
        twin = false
        blocks = 12
        seed = 7
        warmup = "100ms"
        window = "2s"
        margin = 0.05
        metrics = ["p99", "rps"]
        [gates]
        steal_max = 0.5
        [[file]]
        name = "www/index.html"
        text = "hello"
        [[arm]]
        engine = "epoll"
        args = ["--edge"]
        note = "edge"
        [[arm]]
        name = "mine"
        command = "server -p {port}"
        ready = "listening"
        boot = "20s"
        stop = "int"
        load = ["--request", "x"]
        target = "line://{address}"
        file = [{ name = "conf", text = "x" }]
        [[point]]
        connections = [1, 2, 4]
        [[point]]
        overload = 2.0
        window = "6s"
    "#;
    let plan = plan(text).expect("a plan");
    plan.check().expect("a good plan");
    assert_eq!((plan.label.as_str(), plan.points.len(), plan.window_ms), ("publish", 4, 2_000));
    assert_eq!(plan.points[3].model, Model::Overload { factor: 2.0 });
    assert_eq!(plan.spans(&plan.points[3]), (100, 6_000));
    assert_eq!(plan.metrics, [Metric::P99, Metric::Throughput]);
    assert_eq!(plan.gates.steal_max, 0.5);
    assert_eq!(plan.arms[0].command, ["epoll", "--edge"]);
    let mine = &plan.arms[1];
    assert_eq!(mine.ready, Ready::Says("listening".to_string()));
    assert_eq!((mine.boot_ms_max, mine.stop), (20_000, Stop::Int));
    assert_eq!((mine.target.as_str(), mine.files.len()), ("line://{address}", 1));
    assert_eq!(plan.files[0].name, "www/index.html");
}

#[test]
fn what_is_wrong_is_named() {
    fn check(text: &str, want: &str) {
        let found = format!("{:#}", plan(text).expect_err("it is wrong"));
        assert!(found.contains(want), "expected `{want}` in {found}");
    }
    check("blokcs = 5", "unknown field `blokcs`");
    check("[gates]\nsteel_max = 1", "unknown field `steel_max`");
    check("[[arm]]\nname = 'x'", "arm `x`: expected one of `engine`, `preset` and `command`");
    check("[[arm]]\npreset = 'x'", "arm `x`: nobody we know");
    check("metrics = ['speed']", "expected metrics out of throughput, cpu");
    check("arms.x = 5", "arms.x");
    check("arms.x = 'a'\n[[file]]\nname = 'y'", "file `y`: expected one of");
    check("warmup = 'soon'", "expected a time such as 150ms");
}

fn table(text: &str) -> Result<crate::duet::DuetTable> {
    PlanFile::parse(text)?.table(Path::new("."), resolve)
}

const DUETS: &str = r#"
question = "What does a request cost?"
note = "one core"
pairs = 6
windows = 5
metrics = ["cpu", "p99"]
arms.bare = "bare {connections}"
arms.ours = "ours"
arms.edge = "edge"
[[point]]
name = "depth"
connections = 64
depth = [1, 16]
[[point]]
name = "many"
idle = 1000
windows = 3
window = "100ms"
path = "/1k"
file = [{ name = "www/1k", text = "x", times = 1024 }]
[[duet]]
left = "bare"
right = ["ours", "edge"]
at = ["depth, depth 1", "depth, depth 16"]
goal = "cpu >= 0.95x right"
[[duet]]
left = "ours"
right = "ours"
at = ["depth, depth 1", "depth, depth 16"]
[[duet]]
left = "ours"
right = "ours"
at = "many"
metrics = ["throughput"]
goal = "connection_memory <= 2.048kB"
"#;

#[test]
fn rows_of_duets_multiply_and_have_goals() {
    use stats::Goal;
    let found = table(DUETS).expect("a table");
    let names: Vec<String> =
        found.rows.iter().map(|row| format!("{}, {}", row.name(), row.point())).collect();
    assert_eq!(
        names,
        [
            "bare / ours, depth, depth 1",
            "bare / ours, depth, depth 16",
            "bare / edge, depth, depth 1",
            "bare / edge, depth, depth 16",
            "ours / ours, depth, depth 1",
            "ours / ours, depth, depth 16",
            "ours / ours+1000, many"
        ]
    );
    let first = &found.rows[0];
    let goal = Some(Goal::AtLeast(0.95));
    assert_eq!(first.asked, [(Metric::Cpu, goal), (Metric::P99, None)]);
    let plan = &first.plan;
    let windows = |plan: &Plan| plan.turns.windows;
    assert_eq!((plan.blocks, windows(plan), plan.window_ms, plan.twin), (6, 5, 40, false));
    assert_eq!(plan.arms[0].at(&plan.points[0]).command, ["bare", "64"]);
    assert!(found.rows[4].plan.twin && found.rows[4].plan.arms.len() == 1);
    let last = &found.rows[6];
    let memory = (Metric::ConnectionMemory, Some(Goal::AtMost(2048.0)));
    assert_eq!(last.asked, [(Metric::Throughput, None), memory]);
    let plan = &last.plan;
    assert_eq!((windows(plan), plan.window_ms, plan.points[0].idle), (3, 100, 0));
    assert_eq!((plan.arms[0].idle, plan.arms[1].idle), (0, 1000));
    let point = &plan.points[0];
    assert_eq!((point.path.as_str(), point.files[0].text.len()), ("/1k", 1024));
}

#[test]
fn what_is_wrong_with_a_duet_is_named() {
    fn check(from: &str, to: &str, want: &str) {
        assert!(DUETS.contains(from), "{from}");
        let found = format!("{:#}", table(&DUETS.replacen(from, to, 1)).expect_err("it is wrong"));
        assert!(found.contains(want), "expected `{want}` in {found}");
    }
    check("right = [", "rihgt = [", "unknown field `rihgt`");
    check("[\"ours\", \"edge\"]", "\"our\"", "number 1: expected an arm out of bare, ours, edge");
    check("at = \"many\"", "at = \"few\"", "depth, depth 16, many, found `few`");
    check("\"cpu >= 0.95x right\"", "\"0.95\"", "expected a goal such as `>= 0.95`");
    check("\"cpu >= 0.95x right\"", "\"cpu >= 0.95x left\"", "such as `cpu >= 0.95x right`");
    check("\"cpu >= 0.95x right\"", "\"mean < 1ms\"", "found `mean`");
    check("\"p99\"", "\"recovery\"", "a metric of duets out of cpu, throughput");
    check("pairs = 6", "blocks = 6", "`blocks` belongs to a race");
    check("pairs = 6", "pairs = 0", "1 block or more");
    check("idle = 1000", "", "`connection_memory` needs `idle`");
    check("left = \"bare\"\n", "", "an arm for `left`, found none");
    check("right = [\"ours\", \"edge\"]", "right = [\"ours\", \"ours\"]", "`bare / ours` twice at");
    let no_rows = format!("{:#}", table("arms.a = 'a'").expect_err("no row"));
    assert!(no_rows.contains("`race` runs other plans"), "{no_rows}");
    let open = "arms.a = 'a'\n[[point]]\nrate = 5000\n[[duet]]\nleft = 'a'\nright = 'a'";
    let open = format!("{:#}", table(open).expect_err("no closed loop"));
    assert!(open.contains("load point `5000/s`: expected a closed loop"), "{open}");
    let why = |text: &str| format!("{:#}", plan(text).expect_err("no race"));
    assert!(why(DUETS).contains("`roundhouse duet FILE`"));
    assert!(why("arms.a = 'a'\npairs = 3").contains("`pairs` belongs to a plan with [[duet]]"));
    let turns = plan("arms.a = 'a'\nwindows = 3\nsilent = 9\nbudget = '5s'").expect("a race");
    let want = crate::plan::Turns { windows: 3, silent: 9, budget_ms: Some(5_000) };
    assert_eq!(turns.turns, want);
}

#[test]
fn the_schema_knows_every_key_and_refuses_others() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).expect("JSON");
    let keys = &schema["properties"];
    for key in ["budget", "arms", "arm", "point", "duet", "gates", "metrics"] {
        assert!(keys[key]["description"].is_string(), "{key}: {}", keys[key]);
    }
    assert_eq!(schema["additionalProperties"], false);
    let point = &schema["$defs"]["PointSpec"]["properties"];
    assert!(point["promise"]["description"].as_str().is_some_and(|it| !it.is_empty()), "{point}");
}
