//! Facts about the text files, on an invented race.

use super::*;
use lab::doubts::doubts;
use lab::plan::Arm;
use lab::record::Run;
use lab::trial::{Ending, Trial};
use lab::verdict::{Summary, analyse};
use serde_json::Value;

/// Two servers at one load point, and one that cannot run.
fn run() -> (Run, Summary) {
    let mut run = crate::sample::small();
    let plan = &mut run.manifest.plan;
    plan.question = "a | b <c> \"d\"?".to_string();
    plan.metrics.clear();
    plan.points.truncate(1);
    plan.arms.retain(|arm| ["epoll", "uring"].contains(&arm.name.as_str()));
    plan.arms.push(Arm { name: "steam, \"hot\"".to_string(), ..plan.arms[0].clone() });
    run.trials.retain(|it| it.point == "depth 1" && it.arm.starts_with(['e', 'u']));
    run.trials.push(Trial {
        arm: "steam, \"hot\"".to_string(),
        ending: Ending::Unavailable { reason: "no\nboiler".to_string() },
        ..run.trials[0].clone()
    });
    let summary = analyse(&run);
    (run, summary)
}

#[test]
fn markdown_has_a_row_for_each_arm() {
    let (run, summary) = run();
    let text = markdown(&run, &summary, &doubts(&run, &summary));
    for want in [
        "# a \\| b &lt;c> \"d\"?",
        "| uring | ",
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
    assert!(text.starts_with("**`uring` answers 21 % ["), "{text}");
    for want in [
        "- **FAILED**: uring cpu > 1.05x",
        "| | epoll | uring | uring / epoll | |",
        "| CPU per request | 9.41 µs | 8.53 µs | 0.91× [",
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
    let conditions = ["uring rps > 1.05x epoll", "uring p50 > 2x epoll"];
    let conditions: Vec<_> = conditions.iter().map(|it| it.parse().expect("one")).collect();
    let text = junit(&run, &summary, &conditions);
    assert!(text.contains("failures=\"1\""), "{text}");
    assert!(text.contains("name=\"not (uring rps &gt; 1.05x epoll)\"><failure"), "{text}");
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
