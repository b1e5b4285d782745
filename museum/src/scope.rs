//! The names that the expressions of an exhibit may use, and the values of its sizes.
//!
//! First come the visitor's choices, then the published figures (`exhibits/documents.toml`), then
//! the sizes of the exhibit in their order, and the variables of loops. An expression that is wrong
//! is a [`Fault::Text`] wherever it is evaluated.

use crate::code::{locust, ticks};
use crate::exhibit::Fault;
use crate::law::{queue_limit, syn_linear_timeouts, syn_steps};
use crate::query;
use crate::results::Results;
use crate::stage::Settings;
use crate::text::{self, NOT_MEASURED};
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The published figures that several exhibits share.
const DOCUMENTS: &str = include_str!("../exhibits/documents.toml");

/// Variables of a loop with the expression of their values: `["arm", "arms"]`, or
/// `["arm, flags", "arms"]` for items that are lists.
pub(crate) type Loops = Vec<[String; 2]>;

#[derive(Clone)]
pub(crate) struct Scope {
    environment: Arc<Environment<'static>>,
    values: BTreeMap<String, Value>,
}

impl Scope {
    /// The visitor's choices and the published figures, with queries over `results`.
    pub fn new(settings: &Settings, results: &Arc<Results>) -> Scope {
        let mut environment = text::environment(false);
        query::add(&mut environment, results);
        sizes(&mut environment, settings);
        ticks::add(&mut environment);
        let documents: toml::Table = DOCUMENTS.parse().expect("a test reads it");
        let mut values: BTreeMap<String, Value> =
            documents.into_iter().map(|(name, it)| (name, Value::from(Serde(it)))).collect();
        values.insert("quick".to_string(), settings.quick.into());
        values.insert("full".to_string(), settings.full.into());
        values.insert("scale".to_string(), settings.scale.factor().into());
        values.insert("syn_linear".to_string(), syn_linear_timeouts().into());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        values.insert("processors".to_string(), processors.into());
        values.insert("queue_limit".to_string(), queue_limit().into());
        Scope { environment: Arc::new(environment), values }
    }

    /// Gives names the values that the measurements left.
    pub fn set_measured(&mut self, results: &Results) {
        let values = results.values.iter();
        values.for_each(|(name, it)| self.set(name, Value::from(Serde(it.clone()))));
    }

    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.values.insert(name.to_string(), value.into());
    }

    /// Evaluates sizes or values in their order.
    pub fn set_all(&mut self, all: &toml::Table) -> Result<(), Fault> {
        for (name, expression) in all {
            let value = self.eval(expression.as_str().unwrap_or_default())?;
            self.set(name, value);
        }
        Ok(())
    }

    pub fn eval(&self, expression: &str) -> Result<Value, Fault> {
        let failed = |why: Error| Fault::Text(format!("{why:#}: {expression}"));
        let compiled = self.environment.compile_expression(expression).map_err(failed)?;
        match compiled.eval(Value::from(self.values.clone())) {
            // Arithmetic with what was not measured.
            Err(why) if is_unmeasured(&why) => Ok(Value::from(())),
            found => found.map_err(failed),
        }
    }

    /// Whether a condition holds, if there is one.
    pub fn holds(&self, condition: Option<&str>) -> Result<bool, Fault> {
        condition.map_or(Ok(true), |it| Ok(self.eval(it)?.is_true()))
    }

    pub fn number(&self, expression: &str) -> Result<f64, Fault> {
        let value = self.eval(expression)?;
        let no_number = || Fault::Text(format!("expected a number, found {value}: {expression}"));
        query::float(&value).ok_or_else(no_number)
    }

    /// Its number as a time in seconds.
    pub fn time(&self, expression: &str) -> Result<Duration, Fault> {
        Ok(Duration::from_secs_f64(self.number(expression)?.max(0.0)))
    }

    /// A template with its values; `None` if one of them was not measured.
    pub fn text(&self, template: &str) -> Result<Option<String>, Fault> {
        match self.environment.render_str(template, Value::from(self.values.clone())) {
            Ok(text) => Ok(Some(text::folded(&text))),
            Err(why) if is_unmeasured(&why) => Ok(None),
            Err(why) => Err(Fault::Text(format!("{why:#}: {template}"))),
        }
    }

    /// A template all of whose values are known.
    pub fn words(&self, template: &str) -> Result<String, Fault> {
        let unknown = || Fault::Text(format!("a value is missing: {template}"));
        self.text(template)?.ok_or_else(unknown)
    }

    /// The scopes of all combinations of the loops' items, the last loop innermost.
    pub fn each(&self, loops: &[[String; 2]]) -> Result<Vec<Scope>, Fault> {
        let Some(([names, list], rest)) = loops.split_first() else {
            return Ok(vec![self.clone()]);
        };
        let names: Vec<&str> = names.split(", ").collect();
        let mut all = Vec::new();
        for (at, item) in query::items(&self.eval(list)?).into_iter().enumerate() {
            let mut inner = self.clone();
            inner.set("index", at);
            let items = if names.len() == 1 { vec![item] } else { query::items(&item) };
            names.iter().zip(items).for_each(|(name, item)| inner.set(name, item));
            all.extend(inner.each(rest)?);
        }
        Ok(all)
    }
}

fn is_unmeasured(why: &Error) -> bool {
    let detail = why.detail().unwrap_or_default();
    detail == NOT_MEASURED || detail.contains("unsupported types") && detail.contains("none")
}

/// The functions of the visitor's choices: blocks, crowds, lengths.
fn sizes(environment: &mut Environment<'static>, settings: &Settings) {
    let all = settings.clone();
    environment.add_function("blocks", move |usual: u32| all.blocks(usual));
    let all = settings.clone();
    environment.add_function("rounds", move |usual: u32| all.rounds(usual));
    let all = settings.clone();
    environment.add_function("amount", move |usual: u64, share: u64| all.amount(usual, share));
    let all = settings.clone();
    environment.add_function("clients", move |published: Vec<u32>| all.clients(&published));
    let all = settings.clone();
    environment.add_function("scaled", move |seconds: f64| seconds * all.scale.factor());
    let all = settings.clone();
    environment.add_function("window", move |seconds: f64| {
        all.window(Duration::from_secs_f64(seconds)).as_secs_f64()
    });
    let all = settings.clone();
    environment.add_function(
        "choose",
        move |usual: Value, quick: Value, full: Option<Value>| match (full, all.full, all.quick) {
            (Some(full), true, _) => full,
            (_, _, true) => quick,
            _ => usual,
        },
    );
    environment.add_function("syn_steps", |count: usize| -> Vec<String> {
        let steps = syn_steps(syn_linear_timeouts()).take(count);
        steps.map(|it| it.as_secs().to_string()).collect()
    });
    environment.add_function("has_locust", || locust::program().is_some());
    let all = settings.clone();
    environment.add_function("some", move |list: Vec<Value>, few: usize| match all.quick {
        true => list[..few.min(list.len())].to_vec(),
        false => list,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, want: &str) {
        let scope = Scope::new(&Settings::sample(0.1), &Arc::default());
        let found = scope.eval(expression).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(found.to_string(), want, "{expression}");
    }

    #[test]
    fn sizes_follow_the_choices_of_the_visitor() {
        check("scaled(20)", "2.0");
        check("clients([100, 10])", "[10, 100]");
        check("choose(3, 1, 9)", "3");
        check("some([1, 2, 3], 1)", "[1, 2, 3]");
        check("1 + none", "None");
        check("most(range(5))", "4");
        check("least([3, 1, 2][:1])", "3");
        let scope = Scope::new(&Settings::default(), &Arc::default());
        assert!(scope.number("nobody").is_err() && scope.text("{{ nobody }}").is_err());
        assert_eq!(scope.text("{{ none }}"), Ok(None));
    }

    #[test]
    fn loops_nest_and_take_lists_apart() {
        let scope = Scope::new(&Settings::default(), &Arc::default());
        let loops = [["n", "[1, 2]"], ["name, flags", "[['a', 'x'], ['b', 'y']]"]];
        let loops = loops.map(|it| it.map(String::from));
        let all = scope.each(&loops).expect("good loops");
        let found: Result<Vec<String>, Fault> =
            all.iter().map(|it| it.words("{{ n }}{{ name }}{{ flags }}{{ index }}")).collect();
        assert_eq!(found.expect("words"), ["1ax0", "1by1", "2ax0", "2by1"]);
    }

    // The arithmetic of the published figures.

    #[test]
    fn throughputs_are_those_that_were_printed() {
        let scope = Scope::new(&Settings::default(), &Arc::default());
        let printed = [
            [0.999_454, 9.984_722, 98.883_5, 417.554, 761.009],
            [0.999_300, 9.983_361, 99.019_7, 439.780, 783.453],
            [0.999_472, 9.984_692, 98.855_6, 435.310, 759.460],
            [0.999_234, 9.983_693, 98.993_6, 438.353, 762.486],
            [0.999_445, 9.985_287, 98.870_0, 398.268, 760.057],
            [0.999_234, 9.983_029, 99.042_6, 438.738, 762.195],
        ];
        // Except for the difference between a mean of three quotients and a quotient of means.
        for (side, row) in printed.iter().enumerate() {
            for (at, want) in row.iter().enumerate() {
                let (mix, side) = (side / 2, side % 2);
                let rate =
                    format!("course.clients[{at}] * 10 / course.elapsed_s[{mix}][{side}][{at}]");
                let found = scope.number(&rate).expect("a number");
                assert!((found / want - 1.0).abs() < 0.000_1, "{mix} {side}: {found} {want}");
            }
        }
    }

    #[test]
    fn published_factors_are_those_that_were_concluded() {
        // "Three to four times": from 3.0 to 4.8.
        let heap = "portfolio.pairs_us[4]";
        let factor = |way: u32, of: &str| format!("{of}(over({heap}, portfolio.pairs_us[{way}]))");
        let scope = Scope::new(&Settings::default(), &Arc::default());
        let all = |of: &str| {
            (0..4)
                .map(|way| scope.number(&factor(way, of)).expect("a number"))
                .collect::<Vec<f64>>()
        };
        let least = all("least").into_iter().fold(f64::INFINITY, f64::min);
        let most = all("most").into_iter().fold(0.0, f64::max);
        assert!((2.7..3.1).contains(&least) && (4.7..5.0).contains(&most), "{least} {most}");
        // 31, 184, 37 and 542 times.
        for (at, want) in [31.0, 184.0, 37.0, 542.0].into_iter().enumerate() {
            let found = scope
                .number(&format!("portfolio.queries[{at}].us[0] / portfolio.queries[{at}].us[1]"));
            assert_eq!(found.map(f64::round), Ok(want));
        }
    }

    #[test]
    fn the_study_prints_ratios_of_its_counts_and_whole_rounds() {
        let scope = Scope::new(&Settings::default(), &Arc::default());
        for at in 0..11 {
            let row = format!("study.switches[{at}]");
            let number = |at: usize| scope.number(&format!("{row}[{at}]")).expect("a count");
            let left = number(1) - number(2);
            let printed = number(4);
            match left >= 0.0 {
                true => assert!((left / number(3) - printed).abs() < 0.011, "row {at}"),
                false => assert!(printed < 0.0, "row {at} has no ratio"),
            }
        }
        check("study.answered", "[600, 300, 200, 150, 100]");
        for at in 0..5 {
            let rounds = format!("50 * (1200 // (50 * study.works[{at}])) - study.answered[{at}]");
            check(&rounds, "0");
        }
        // The directives start and end with as many threads.
        for [threads, processes] in [[0, 1], [2, 3]] {
            let total = |at: u32| {
                scope.number(&format!(
                    "study.directives[{at}].start * study.directives[{at}].threads"
                ))
            };
            assert_eq!(total(threads), total(processes));
        }
    }
}
