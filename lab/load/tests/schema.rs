//! The published JSON Schema against real reports. The checker supports only the part of JSON
//! Schema that the schema uses. It is stricter in one point: a field that the schema does not name
//! is an error, so that every new field must be described.

use load::faults::FaultKind;
use load::run::{Watched, Window, Workload};
use load::{Arrivals, Model, Plan, Report, report};
use serde_json::{Map, Value};
use std::time::Duration;
use testkit::EchoServer;

fn schema() -> Value {
    let text = report::json_schema().expect("a schema is JSON");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// Appends to `wrong` each mismatch between `value` and the rules, with its place.
fn check(root: &Value, rules: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let rules = rules.as_object().expect("rules are an object");
    for (rule, wanted) in rules {
        match rule.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" | "format" | "default" => {}
            "$ref" => {
                let path =
                    wanted.as_str().and_then(|it| it.strip_prefix('#')).expect("a local one");
                let rules = root.pointer(path).unwrap_or_else(|| panic!("nothing at {path}"));
                check(root, rules, value, at, wrong);
            }
            "anyOf" | "oneOf" => {
                let all = wanted.as_array().expect("a list");
                let fits = all.iter().any(|rules| faults(root, rules, value).is_empty());
                note(fits, at, "fits no alternative", wrong);
            }
            "type" => {
                let fits = match wanted {
                    Value::Array(all) => all.iter().any(|it| is_of(value, it)),
                    one => is_of(value, one),
                };
                note(fits, at, &format!("expected {wanted}, found {value}"), wrong);
            }
            "const" => note(value == wanted, at, &format!("{value} is not {wanted}"), wrong),
            "enum" => {
                let fits = wanted.as_array().expect("a list").contains(value);
                note(fits, at, &format!("{value} is none of {wanted}"), wrong);
            }
            "minimum" | "maximum" | "minItems" | "maxItems" => {
                let items = || value.as_array().map(|it| it.len() as f64);
                let limit = wanted.as_f64().expect("a number");
                let fits = value.as_f64().or_else(items).is_none_or(|it| {
                    if rule.starts_with("min") { it >= limit } else { it <= limit }
                });
                note(fits, at, &format!("{value} is beyond the {rule} {wanted}"), wrong);
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, wanted, item, &format!("{at}[{index}]"), wrong);
                }
            }
            "prefixItems" => {
                let items = value.as_array().into_iter().flatten();
                for (index, (rules, item)) in
                    wanted.as_array().into_iter().flatten().zip(items).enumerate()
                {
                    check(root, rules, item, &format!("{at}[{index}]"), wrong);
                }
            }
            "properties" => properties(root, wanted, value, at, wrong),
            "required" => {
                for name in wanted.as_array().expect("a list").iter().filter_map(Value::as_str) {
                    let there = value.as_object().is_none_or(|it| it.contains_key(name));
                    note(there, at, &format!("`{name}` is missing"), wrong);
                }
            }
            other => panic!("the checker does not know `{other}`"),
        }
    }
}

fn properties(root: &Value, wanted: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let (wanted, none) = (wanted.as_object().expect("an object"), Map::new());
    for (name, field) in value.as_object().unwrap_or(&none) {
        let at = format!("{at}.{name}");
        match wanted.get(name) {
            Some(rules) => check(root, rules, field, &at, wrong),
            None => wrong.push(format!("{at} is not in the schema")),
        }
    }
}

fn note(fits: bool, at: &str, what: &str, wrong: &mut Vec<String>) {
    if !fits {
        wrong.push(format!("{at}: {what}"));
    }
}

fn faults(root: &Value, rules: &Value, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check(root, rules, value, "$", &mut wrong);
    wrong
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a name") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the checker does not know the type `{other}`"),
    }
}

fn check_report(report: &Report) -> Value {
    let value = serde_json::to_value(report).expect("a report is JSON");
    let schema = schema();
    assert_eq!(faults(&schema, &schema, &value), Vec::<String>::new(), "{value}");
    value
}

/// A run against an echo in this process.
fn measured(change: impl FnOnce(&mut Plan)) -> Report {
    let target = format!("echo://{}", EchoServer::start().address);
    let mut plan = Plan::new(target.parse().expect("a target"), Workload::Echo);
    plan.window = Window::For(Duration::from_millis(200));
    change(&mut plan);
    load::run(&plan).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn reports_keep_the_published_schema() {
    let mut closed = measured(|plan| {
        plan.settings.detailed = true;
        plan.slo = Some("99%<5s".parse().expect("an objective"));
        plan.watch = Some(Watched { pid: std::process::id(), group: None, place: None });
    });
    check_report(&closed);
    assert!(!closed.slo.is_empty() && closed.server.is_some() && !closed.kinds.is_empty());
    closed.errors.count(FaultKind::NoPorts, || "an example".to_owned());
    check_report(&closed);
    check_report(&measured(|plan| {
        plan.model = Model::Open { rate: 500.0, arrivals: Arrivals::Constant, depth: 1 };
        plan.threads = 2;
    }));
}

/// A document with every field of the first published version, each with a value.
const FIRST: &str = include_str!("report-1.json");

#[test]
fn the_first_document_keeps_its_schema() {
    let (schema, first): (Value, Value) =
        (schema(), serde_json::from_str(FIRST).expect("the document is JSON"));
    assert_eq!(faults(&schema, &schema, &first), Vec::<String>::new());
    let required = schema["required"].as_array().expect("a list");
    let missing = |name: &&String| !required.iter().any(|it| it == *name);
    let fields = first.as_object().expect("an object");
    assert_eq!(fields.keys().filter(missing).collect::<Vec<_>>(), ["stress"]);
    serde_json::from_value::<Report>(first).expect("it can be read too");
}

#[test]
fn the_checker_objects() {
    let report = measured(|_| {});
    let (schema, right) = (schema(), check_report(&report));
    let check_wrong = |change: &dyn Fn(&mut Value), part: &str| {
        let mut value = right.clone();
        change(&mut value);
        let found = faults(&schema, &schema, &value);
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
    };
    check_wrong(&|it| it["schema"] = "roundhouse.load/2".into(), "$.schema: ");
    check_wrong(&|it| it["requests"] = (-1).into(), "$.requests: -1");
    check_wrong(&|it| it["model"] = "ajar".into(), "$.model: ");
    check_wrong(&|it| it["extra"] = 1.into(), "$.extra is not in the schema");
    check_wrong(&|it| it["service"]["p99_ns"] = "9".into(), "$.service.p99_ns: ");
    check_wrong(&|it| it["timeline"][0]["buckets"] = vec![vec![1]].into(), "buckets[0]: ");
    check_wrong(&|it| drop(it["health"].as_object_mut().unwrap().remove("verdict")), "`verdict`");
    check_wrong(&|it| it["server"] = 7.into(), "fits no alternative");
}
