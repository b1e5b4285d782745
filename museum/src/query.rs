//! Queries over the results of an exhibit, as functions of the expressions in its file.
//!
//! An expression is one of minijinja. `of('rps')` is the list of a figure by block, of the arm and
//! the point in scope or of those that are named; `ratio(a, b)` compares two lists block by block;
//! `said(list)` is its median in words. A figure without a measurement is `none`, and so is every
//! function of `none`, so a sentence without its number is left out rather than wrong.

use crate::results::{self, Results};
use minijinja::value::{Object, ObjectRepr, Rest, Value};
use minijinja::{Environment, Error, State};
use stats::{Comparison, median, median_interval, words};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A comparison as a value: in text its ratio with the interval.
#[derive(Clone, Debug)]
pub(crate) struct Compared(pub Comparison);

impl Object for Compared {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let interval = self.0.interval.as_ref();
        match key.as_str()? {
            "ratio" => Some(Value::from(self.0.ratio)),
            "low" => Some(interval.map_or(Value::from(()), |it| Value::from(it.low))),
            "high" => Some(interval.map_or(Value::from(()), |it| Value::from(it.high))),
            // Whether the interval leaves no effect out.
            "sure" => Some(Value::from(interval.is_some_and(|it| it.low > 1.0 || it.high < 1.0))),
            _ => None,
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words::compared(&self.0))
    }
}

pub fn comparison(value: &Value) -> Option<&Comparison> {
    value.downcast_object_ref::<Compared>().map(|it| &it.0)
}

/// A number as a value: a whole one prints without a point.
pub fn number(value: Option<f64>) -> Value {
    match value.filter(|it| it.is_finite()) {
        None => Value::from(()),
        Some(it) if it.fract() == 0.0 && it.abs() < 1e15 => Value::from(it as i64),
        Some(it) => Value::from(it),
    }
}

/// The number in a value: a comparison's is its ratio.
pub fn float(value: &Value) -> Option<f64> {
    match comparison(value) {
        Some(it) => Some(it.ratio),
        None => f64::try_from(value.clone()).ok(),
    }
}

/// The items of a list; none of anything else.
pub fn items(value: &Value) -> Vec<Value> {
    // A range and a part of a list are iterables.
    use minijinja::value::ValueKind;
    let is_list = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    value.try_iter().ok().filter(|_| is_list).map(Iterator::collect).unwrap_or_default()
}

/// The numbers of a list by block.
pub fn floats(value: &Value) -> Vec<Option<f64>> {
    items(value).iter().map(float).collect()
}

pub fn measured(value: &Value) -> Vec<f64> {
    floats(value).into_iter().flatten().collect()
}

fn list(values: impl IntoIterator<Item = Option<f64>>) -> Value {
    let values: Vec<Value> = values.into_iter().map(number).collect();
    if values.is_empty() { Value::from(()) } else { Value::from(values) }
}

fn compared(found: Option<Comparison>) -> Value {
    found.map_or(Value::from(()), |it| Value::from_object(Compared(it)))
}

fn text(words: Option<String>) -> Value {
    words.map_or(Value::from(()), Value::from)
}

/// The median in words, with its interval where there are enough values and they differ.
pub fn said(values: &[f64]) -> Option<String> {
    let middle = words::number(median(values)?);
    let ends = median_interval(values).map(|it| [it.low, it.high].map(words::number));
    Some(match ends {
        Some([low, high]) if low != middle || high != middle => format!("{middle} [{low}, {high}]"),
        _ => middle,
    })
}

/// Which cell: what was named, or the arm and point in scope.
fn place(state: &State, named: &[Value]) -> [String; 2] {
    let at = |index: usize, name: &str| {
        let named = named.get(index).filter(|it| !it.is_none()).cloned();
        named.or_else(|| state.lookup(name)).map_or(String::new(), |it| it.to_string())
    };
    [at(0, "arm"), at(1, "point")]
}

pub fn add(environment: &mut Environment<'static>, results: &Arc<Results>) {
    of_cells(environment, results);
    of_pairs(environment, results);
    of_lists(environment);
    of_choice(environment);
    of_rows(environment);
    forms(environment);
}

fn of_cells(environment: &mut Environment<'static>, results: &Arc<Results>) {
    let all = results.clone();
    let of = move |state: &State, figure: &str, named: &[Value]| {
        let [arm, point] = place(state, named);
        list(all.of(figure, &arm, &point))
    };
    let shown = of.clone();
    environment.add_function("of", move |state: &State, figure: &str, named: Rest<Value>| {
        of(state, figure, &named)
    });
    environment.add_function("shown", move |state: &State, figure: &str, named: Rest<Value>| {
        text(said(&measured(&shown(state, figure, &named))))
    });
    let all = results.clone();
    environment.add_function("has", move |state: &State, named: Rest<Value>| {
        let [arm, point] = place(state, &named);
        all.find(&arm, &point).is_some()
    });
    let all = results.clone();
    environment.add_function("line", move |state: &State, name: &str, named: Rest<Value>| {
        let [arm, point] = place(state, &named);
        let points = all.find(&arm, &point).and_then(|it| it.lines.get(name));
        let points = points.into_iter().flatten();
        Value::from(points.map(|(x, y)| Value::from(vec![*x, *y])).collect::<Vec<_>>())
    });
    let all = results.clone();
    environment.add_function("notes", move |state: &State, named: Rest<Value>| {
        let [arm, point] = place(state, &named);
        let notes = all.find(&arm, &point).map(|it| it.notes.clone()).unwrap_or_default();
        Value::from(notes)
    });
    let all = results.clone();
    environment.add_function(
        "effect",
        // Runs are named by their switches, the first one last, as `00101`.
        move |figure: &str, switch: u32, runs: Vec<String>, point: &str| {
            let run =
                |it: &String| Some((all.of(figure, it, point), u32::from_str_radix(it, 2).ok()?));
            let runs: Vec<_> = runs.iter().filter_map(run).collect();
            compared(results::effect(&runs, switch))
        },
    );
}

fn of_pairs(environment: &mut Environment<'static>, results: &Arc<Results>) {
    environment.add_function("ratio", |one: &Value, other: &Value| {
        compared(results::ratio(&floats(one), &floats(other)))
    });
    let all = results.clone();
    environment.add_function(
        "against",
        move |state: &State, figure: &str, arm: &str, other: &str, points: Rest<Value>| {
            let [_, point] = place(state, &[Value::from(()), named(&points, 0)]);
            let second = named(&points, 1);
            let second = if second.is_none() { point.clone() } else { second.to_string() };
            let [one, two] = [all.of(figure, arm, &point), all.of(figure, other, &second)];
            compared(results::ratio(&one, &two))
        },
    );
    let all = results.clone();
    environment.add_function(
        "verdict",
        move |state: &State, figure: &str, arm: &str, other: &str, points: Rest<Value>| {
            let [_, point] = place(state, &[Value::from(()), named(&points, 0)]);
            let [one, two] = [arm, other].map(|it| all.of(figure, it, &point));
            let word = results::ratio(&one, &two).map(|it| all.judge(&it, figure, &point));
            text(word.map(|it| cost_word(it).to_string()))
        },
    );
    environment.add_function("judged", |state: &mut State, args: Rest<Value>| {
        let call = |state: &mut State, name: &str| {
            let function = state.lookup(name).unwrap_or_default();
            function.call(state, &args)
        };
        let found = call(state, "against")?;
        let verdict = call(state, "verdict")?;
        let is_known = comparison(&found).is_some();
        Ok::<Value, Error>(text(is_known.then(|| format!("{found} {verdict}"))))
    });
}

fn named(points: &[Value], at: usize) -> Value {
    points.get(at).cloned().unwrap_or(Value::from(()))
}

fn cost_word(decision: stats::Decision) -> &'static str {
    match decision {
        stats::Decision::Better => "cheaper",
        stats::Decision::Worse => "costlier",
        stats::Decision::Equal => "equivalent",
        stats::Decision::Open => "unresolved",
    }
}

/// A function of two lists by block, or of a list and a number.
fn paired(one: &Value, other: &Value, of: fn(f64, f64) -> f64) -> Value {
    match (float(one), float(other)) {
        (Some(one), Some(other)) => number(Some(of(one, other))),
        (None, Some(other)) => list(floats(one).into_iter().map(|one| Some(of(one?, other)))),
        (Some(one), None) => list(floats(other).into_iter().map(|other| Some(of(one, other?)))),
        (None, None) => {
            let pairs = floats(one).into_iter().zip(floats(other));
            list(pairs.map(|(one, other)| Some(of(one?, other?))))
        }
    }
}

/// A function of all values of one block, block by block.
fn across(lists: &Value, of: fn(&[f64]) -> f64) -> Value {
    let lists: Vec<Vec<Option<f64>>> = items(lists).iter().map(floats).collect();
    let blocks = lists.iter().map(Vec::len).min().unwrap_or(0);
    let whole = |block: usize| lists.iter().map(|it| it[block]).collect::<Option<Vec<f64>>>();
    list((0..blocks).map(|block| whole(block).map(|values| of(&values))))
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn of_lists(environment: &mut Environment<'static>) {
    environment.add_function("over", |a: &Value, b: &Value| paired(a, b, |a, b| a / b));
    environment.add_function("minus", |a: &Value, b: &Value| paired(a, b, |a, b| a - b));
    environment.add_function("plus", |a: &Value, b: &Value| paired(a, b, |a, b| a + b));
    environment.add_function("by", |a: &Value, b: &Value| paired(a, b, |a, b| a * b));
    environment.add_function("larger", |a: &Value, b: &Value| paired(a, b, f64::max));
    environment.add_function("away", |a: &Value, b: &Value| paired(a, b, |a, b| (a - b).abs()));
    environment.add_function("nonnegative", |values: &Value| {
        list(floats(values).into_iter().map(|it| it.filter(|it| *it >= 0.0)))
    });
    environment.add_function("ln", |a: &Value| number(float(a).map(f64::ln)));
    environment.add_function("exp", |a: &Value| number(float(a).map(f64::exp)));
    environment.add_function("spread", |lists: &Value| {
        across(lists, |values| most(values) / least(values) - 1.0)
    });
    environment.add_function("worst", |lists: &Value| across(lists, most));
    environment.add_function("total", |lists: &Value| across(lists, |it| it.iter().sum()));
    environment.add_function("median", |values: &Value| number(median(&measured(values))));
    environment.add_function("least", |values: &Value| number(Some(least(&measured(values)))));
    environment.add_function("most", |values: &Value| number(Some(most(&measured(values)))));
    environment.add_function("mean", |values: &Value| {
        let values = measured(values);
        number(Some(values.iter().sum::<f64>() / values.len() as f64))
    });
    environment.add_function("sum", |values: &Value| {
        let values = measured(values);
        number((!values.is_empty()).then(|| values.iter().sum()))
    });
    environment.add_function("flat", |lists: &Value| {
        Value::from(items(lists).iter().flat_map(items).collect::<Vec<_>>())
    });
}

/// The item of a list that ranks highest, if one has a rank.
fn best<K: PartialOrd>(list: &Value, rank: impl Fn(&Value) -> Option<K>) -> Value {
    let ranked = items(list).into_iter().filter_map(|it| Some((rank(&it)?, it)));
    let best = ranked.max_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    best.map_or(Value::from(()), |it| it.1)
}

fn cell(row: &Value, at: usize) -> Option<f64> {
    items(row).get(at).and_then(float)
}

fn of_choice(environment: &mut Environment<'static>) {
    // The ratio that is farthest from 1.
    let far = |ratio: f64| ratio.ln().abs();
    environment
        .add_function("farthest", move |values: &Value| best(values, |it| float(it).map(far)));
    // The number that is farthest from 0.
    environment.add_function("utmost", |values: &Value| {
        number(float(&best(values, |it| float(it).map(f64::abs))))
    });
    // The list whose median is largest.
    environment.add_function("widest", |lists: &Value| {
        best(lists, |it| {
            let values = measured(it);
            Some((median(&values).unwrap_or(f64::NEG_INFINITY), values.iter().sum::<f64>()))
        })
    });
    // The item of a list of lists whose number at `at` is largest, or smallest.
    environment.add_function("top", |rows: &Value, at: usize| best(rows, |it| cell(it, at)));
    environment.add_function("bottom", |rows: &Value, at: usize| {
        best(rows, |row| cell(row, at).map(|it| -it))
    });
}

/// Functions of rows, points and places.
fn of_rows(environment: &mut Environment<'static>) {
    // Rows in the order of their number at `at`, the largest first.
    environment.add_function("ranked", |rows: &Value, at: usize| {
        let rank = |row: &Value| cell(row, at).unwrap_or(f64::NEG_INFINITY);
        let mut rows = items(rows);
        rows.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        Value::from(rows)
    });
    // The place of an item in a list, and the item at a place, if there are such.
    environment.add_function("find", |list: &Value, item: &Value| {
        let at = items(list).iter().position(|it| it == item);
        number(at.map(|it| it as f64))
    });
    environment.add_function("at", |list: &Value, at: Option<usize>| {
        at.and_then(|at| items(list).get(at).cloned()).unwrap_or(Value::from(()))
    });
    // Pairs of the first of each row and what the map has under its second.
    environment.add_function("pairs", |rows: &Value, map: &Value| {
        let pair = |row: &Value| {
            let row = items(row);
            let value = row.get(1).and_then(|key| map.get_item(key).ok()).unwrap_or_default();
            Value::from(vec![row.first().cloned().unwrap_or_default(), value])
        };
        Value::from(items(rows).iter().map(pair).collect::<Vec<_>>())
    });
    // The note of most runs, and how many had it if not all.
    environment.add_function("usual", |notes: Vec<String>| {
        let count = |it: &String| notes.iter().filter(|other| *other == it).count();
        let usual = notes.iter().max_by_key(|it| count(it));
        text(usual.map(|it| match count(it) {
            all if all == notes.len() => it.clone(),
            some => format!("{it}: {some} of {} runs", notes.len()),
        }))
    });
    // Points of a line, moved up and stretched.
    environment.add_function("moved", |points: &Value, up: f64, factor: f64| {
        let point = |it: &Value| match floats(it)[..] {
            [Some(x), Some(y)] => Value::from(vec![x, (y + up) * factor]),
            _ => Value::from(()),
        };
        Value::from(items(points).iter().map(point).collect::<Vec<_>>())
    });
}

fn forms(environment: &mut Environment<'static>) {
    let mut form = |name: &'static str, of: fn(f64) -> String| {
        environment.add_function(name, move |it: &Value| text(float(it).map(of)));
    };
    form("number", words::number);
    form("count", |it| words::count(it.round() as u64));
    form("whole", |it| words::number(it.round()));
    form("seconds", words::seconds);
    form("duration", |it| words::span(Duration::from_secs_f64(it.max(0.0))));
    form("percent", words::percent);
    form("times", words::ratio);
    form("micros", words::micros);
    form("time", words::time);
    environment.add_function("counted", |number: u64, thing: &str| words::counted(number, thing));
    environment.add_function("fixed", |it: &Value, digits: usize| {
        // Zero has no sign.
        let text = |it: f64| format!("{:.digits$}", if it.abs() < 1e-9 { 0.0 } else { it });
        self::text(float(it).map(text))
    });
    environment.add_function("said", |values: &Value| text(said(&measured(values))));
    environment.add_function("compared", |it: &Value| text(comparison(it).map(words::compared)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Figures;

    fn check(expression: &str, want: &str) {
        let mut results = Results::default();
        for block in 0..6 {
            let base = 100.0 + f64::from(block);
            for (arm, rps) in [("a", 2.0 * base), ("b", base)] {
                let figures = Figures::from([("rps".to_string(), rps)]);
                results.add(arm, "steady", block, figures);
            }
        }
        let mut environment = Environment::new();
        add(&mut environment, &Arc::new(results));
        let compiled = environment.compile_expression(expression).expect("an expression");
        let scope = minijinja::context! { arm => "b", point => "steady" };
        let found = compiled.eval(scope).unwrap_or_else(|why| panic!("{expression}: {why}"));
        assert_eq!(found.to_string(), want, "{expression}");
    }

    #[test]
    fn cells_are_compared_block_by_block() {
        check("against('rps', 'a', 'b')", "2.00× [2.00, 2.00]");
        check("judged('rps', 'a', 'b')", "2.00× [2.00, 2.00] costlier");
        check("against('rps', 'a', 'b').ratio > 1.99", "True");
        check("shown('rps')", "102.5 [100, 105]");
        check("median(of('rps', 'a'))", "205");
        check("median(over(of('rps', 'a'), of('rps')))", "2");
        check("percent(median(spread([of('rps', 'a'), of('rps')])))", "100 %");
        check("number(least([3, 4.5]))", "3");
        check("top([['x', 1], ['y', 2]], 1)[0]", "y");
    }

    #[test]
    fn what_was_not_measured_stays_unmeasured() {
        for expression in [
            "against('rps', 'a', 'c')",
            "judged('rps', 'a', 'b', 'wobbling')",
            "shown('inside_ms')",
            "number(median(over(of('rps', 'c'), 2)))",
            "percent(median(none))",
            "farthest([])",
        ] {
            check(expression, "None");
        }
    }
}
