//! Facts about the text files, on an invented race.

use super::*;
use lab::doubts::doubts;
use lab::load::Load;
use lab::observations::Observations;
use lab::plan::{Arm, LoadPoint, Plan};
use lab::record::{Manifest, Run};
use lab::trial::{Ending, Trial};
use lab::verdict::{Summary, analyse};
use serde_json::Value;

fn trial(arm: &str, block: u32, rate: f64) -> Trial {
    let text = format!(
        "{{\"schema\":\"roundhouse.load/1\",\"requests\":20000,\"throughput_rps\":{rate},\
         \"service\":{{\"count\":20000,\"p50_ns\":1000,\"p99_ns\":5000}},\
         \"server\":{{\"cpu_ns_per_request\":{}}}}}",
        1e9 / rate
    );
    Trial {
        order: block,
        block,
        point: "depth 1".to_string(),
        arm: arm.to_string(),
        seed: 1,
        swapped: false,
        begun_ms: 0.5,
        took_ms: 900.0,
        boot_ms: Some(1.0),
        conditions: lab::machine::Conditions::default(),
        objections: Vec::new(),
        exit: None,
        exit_clean: true,
        ending: Ending::Measured { load: Box::new(Load::parse(&text).expect("well formed")) },
        seen: Observations::default(),
    }
}

fn run() -> (Run, Summary) {
    let arm = |name: &str| Arm {
        name: name.to_string(),
        command: vec!["server".to_string()],
        ..Arm::default()
    };
    let plan = Plan {
        question: "a | b <c> \"d\"?".to_string(),
        arms: vec![arm("epoll"), arm("uring"), arm("steam, \"hot\"")],
        baseline: "epoll".to_string(),
        points: vec![LoadPoint { name: "depth 1".to_string(), ..LoadPoint::default() }],
        ..Plan::default()
    };
    let manifest = Manifest { plan, ..Manifest::default() };
    let mut run = Run { manifest, finished: true, ..Run::default() };
    for block in 0..6 {
        let wobble = 1.0 + f64::from(block) / 1_000.0;
        run.trials.push(trial("epoll", block, 1_000.0));
        run.trials.push(trial("uring", block, 1_500.0 * wobble));
        run.trials.push(trial("epoll (twin)", block, 1_020.0));
    }
    let mut absent = trial("steam, \"hot\"", 0, 1.0);
    absent.ending = Ending::Unavailable { reason: "no\nboiler".to_string() };
    run.trials.push(absent);
    let summary = analyse(&run);
    (run, summary)
}

#[test]
fn markdown_has_a_row_for_each_arm() {
    let (run, summary) = run();
    let text = markdown(&run, &summary, &doubts(&run, &summary));
    for want in [
        "# a \\| b &lt;c> \"d\"?",
        "| uring | 1,504 |",
        "**faster**",
        "**cheaper**",
        "not measured: no boiler |",
        "## Doubts",
    ] {
        assert!(text.contains(want), "expected `{want}` in\n{text}");
    }
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.iter().all(|row| columns(row) == columns(rows[0])), "{text}");
}

#[test]
fn a_summary_has_the_answer_first_and_a_row_for_each_metric_of_two_servers() {
    let (mut run, _) = run();
    run.manifest.plan.arms.truncate(2);
    run.manifest.plan.arms[1].note = "main, 1a2b3c".to_string();
    let found = analyse(&run);
    let doubts = doubts(&run, &found);
    let failed = [("FAILED", "uring cpu > 1.05x epoll at depth 1: 1.5x".to_string())];
    let text = super::summary(&run, &found, &doubts, &failed, "perf/report.html");
    assert!(text.starts_with("**`uring` answers 50 % [50, 5"), "{text}");
    for want in [
        "- **FAILED**: uring cpu > 1.05x",
        "| | epoll | uring | uring / epoll | |",
        "| CPU per request | 1.00 ms | 665 µs | 0.67× [",
        "| cheaper |",
        "`uring`: main, 1a2b3c",
        "all intervals: `perf/report.html`",
    ] {
        assert!(text.contains(want), "expected `{want}` in\n{text}");
    }
}

#[test]
fn junit_is_well_formed_and_fails_by_conditions_alone() {
    let (run, summary) = run();
    let conditions = ["uring rps > 1.1x epoll", "uring p50 > 2x epoll"];
    let conditions: Vec<_> = conditions.iter().map(|it| it.parse().expect("one")).collect();
    let text = junit(&run, &summary, &conditions);
    assert!(text.contains("failures=\"1\""), "{text}");
    assert!(text.contains("name=\"not (uring rps &gt; 1.1x epoll)\"><failure"), "{text}");
    assert!(text.contains("<skipped message=\"no&#10;boiler\"/>"), "{text}");
    let open = text.matches("<testcase ").count();
    assert_eq!(text.matches("</testcase>").count(), open);
    assert!(text.contains(&format!("tests=\"{open}\"")), "{text}");
    assert!(junit(&run, &summary, &[]).contains("failures=\"0\""));
}

/// Validates a value by the part of JSON Schema that our schema uses.
fn check(root: &Value, schema: &Value, value: &Value, path: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches("#/$defs/");
        return check(root, &root["$defs"][name], value, path);
    }
    if let Some(wanted) = schema.get("const") {
        assert_eq!(wanted, value, "{path}");
    }
    if let Some(some) = schema["enum"].as_array() {
        assert!(some.contains(value), "{path}: {value} is none of {some:?}");
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = |name: &Value| name == kind || (name == "number" && kind == "integer");
    match &schema["type"] {
        Value::Null => {}
        Value::Array(some) => assert!(some.iter().any(fits), "{path}: {kind} for {some:?}"),
        one => assert!(fits(one), "{path}: {kind} for {one}"),
    }
    for name in schema["required"].as_array().into_iter().flatten().filter(|_| value.is_object()) {
        let name = name.as_str().expect("a name");
        assert!(value.get(name).is_some(), "{path}: expected `{name}`");
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(found) = value.get(name) {
            check(root, part, found, &format!("{path}/{name}"));
        }
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(part) = schema.get("items") {
            check(root, part, item, &format!("{path}/{at}"));
        }
    }
}

#[test]
fn the_document_is_what_its_schema_says() {
    let (run, summary) = run();
    let text = json(&run, &summary, &doubts(&run, &summary)).expect("strings and numbers");
    let document: Value = serde_json::from_str(&text).expect("well formed");
    let schema: Value = serde_json::from_str(SCHEMA_TEXT).expect("well formed");
    check(&schema, &schema, &document, "");
    assert_eq!(document["summary"]["points"][0]["arms"][1]["judged"][0]["decision"], "better");
}
