//! Facts about plan files.

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
    assert_eq!(plan.check(), Ok(()));
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
    assert_eq!(plan.check(), Ok(()));
    assert_eq!((plan.label.as_str(), plan.points.len(), plan.window_ms), ("publish", 4, 2_000));
    assert_eq!(plan.points[3].model, Model::Overload { factor: 2.0 });
    assert_eq!(plan.spans(&plan.points[3]), (100, 6_000));
    assert_eq!(plan.metrics, [Metric::P99, Metric::Throughput]);
    assert_eq!((plan.gates.steal_max, plan.gates.attempts), (0.5, 3));
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

#[test]
fn questions_name_every_arm() {
    assert_eq!(either(&["a"]), "a");
    assert_eq!(either(&["a", "b"]), "a or b");
    assert_eq!(either(&["a", "b", "c"]), "a, b or c");
}
