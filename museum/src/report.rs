//! From results to rows, series and findings, as the plan of an exhibit says.
//!
//! Everything is an expression over the results, so an exhibit needs no code. A value that was not
//! measured is left out of lists and shown as a dash in tables.

use crate::draft::{Draft, Measured, Part};
use crate::exhibit::Fault;
use crate::plan::{Drawing, Plan, Rows, Value as Spec};
use crate::query::{self, comparison, float, items};
use crate::scope::{Loops, Scope};
use document::{CameOut, Mark, Point, Series};
use minijinja::value::{Value, ValueKind};
use serde_json::json;
use stats::{median, median_interval, words};

pub fn draft(plan: &Plan, scope: &Scope) -> Result<Draft, Fault> {
    let scope = with_lets(plan, scope)?;
    let mut draft = Draft::default();
    for (name, spec) in &plan.values {
        draft.set(name, plain(&value(spec, &scope)?));
    }
    for (room, head) in &plan.heads {
        let head = items(&scope.eval(head)?);
        part(&mut draft, room).head.extend(head.iter().map(Value::to_string));
    }
    for rows in &plan.tables {
        table(&mut draft, rows, &scope)?;
    }
    for (room, names) in &plan.names {
        let names = items(&value(names, &scope)?);
        part(&mut draft, room).names = names.iter().map(Value::to_string).collect();
    }
    for drawing in &plan.series {
        draw(&mut draft, drawing, &scope)?;
    }
    for (name, spec) in &plan.findings {
        find(&mut draft, name, spec, &scope)?;
    }
    for fact in &plan.facts {
        for scope in scope.each(&fact.each)? {
            if let Some(text) = scope.text(&fact.text)? {
                draft.facts.push((scope.words(&fact.name)?, text));
            }
        }
    }
    Ok(draft)
}

fn with_lets(plan: &Plan, scope: &Scope) -> Result<Scope, Fault> {
    let mut scope = scope.clone();
    for (name, spec) in &plan.lets {
        let value = value(spec, &scope)?;
        scope.set(name, value);
    }
    Ok(scope)
}

/// The reasons for distrust that the plan names and the results give.
pub fn doubts(plan: &Plan, scope: &Scope) -> Result<Vec<String>, Fault> {
    let scope = with_lets(plan, scope)?;
    let mut doubts = Vec::new();
    for [condition, text] in &plan.doubts {
        if scope.eval(condition)?.is_true() {
            doubts.push(scope.words(text)?);
        }
    }
    Ok(doubts)
}

/// The part of a draft by its name; a room is made on its first use.
fn part<'d>(draft: &'d mut Draft, name: &str) -> &'d mut Part {
    match name {
        "published" => &mut draft.published,
        "flawed" => &mut draft.flawed,
        "corrected" => &mut draft.corrected,
        "together" => &mut draft.together,
        room => {
            let at = draft.rooms.iter().position(|it| it.0 == room).unwrap_or_else(|| {
                draft.rooms.push((room.to_string(), Part::default()));
                draft.rooms.len() - 1
            });
            &mut draft.rooms[at].1
        }
    }
}

/// A value of the plan: an expression, a text, or a list of what a loop yields. Values
/// without a measurement are left out of a list.
fn value(spec: &Spec, scope: &Scope) -> Result<Value, Fault> {
    let all = |loops: &Loops, one: &dyn Fn(&Scope) -> Result<Value, Fault>| {
        if loops.is_empty() {
            return one(scope);
        }
        let all = scope.each(loops)?.iter().map(one).collect::<Result<Vec<Value>, Fault>>()?;
        Ok(all.into_iter().filter(|it| !it.is_none()).collect())
    };
    match spec {
        Spec::Plain(expression) => scope.eval(expression),
        Spec::Text { each, text } => all(each, &|scope| {
            let text = scope.text(text)?.filter(|it| !it.is_empty());
            Ok(text.map_or(Value::from(()), Value::from))
        }),
        Spec::Items { each, take, then } => {
            let all = all(each, &|scope| scope.eval(take))?;
            let Some(then) = then else { return Ok(all) };
            let mut scope = scope.clone();
            scope.set("all", all);
            scope.eval(then)
        }
    }
}

/// A value without objects, as a record has it.
fn plain(value: &Value) -> serde_json::Value {
    match (comparison(value), value.kind()) {
        (Some(it), _) => json!(words::compared(it)),
        _ if is_list(value) => items(value).iter().map(plain).collect(),
        (_, ValueKind::Number) => match value.as_i64() {
            Some(whole) => json!(whole),
            None => json!(float(value)),
        },
        (_, ValueKind::Map) => {
            let keys = value.try_iter().into_iter().flatten();
            keys.map(|key| (key.to_string(), plain(&value.get_item(&key).unwrap_or_default())))
                .collect()
        }
        (_, ValueKind::Bool) => json!(value.is_true()),
        _ => json!(value.as_str()),
    }
}

fn table(draft: &mut Draft, rows: &Rows, scope: &Scope) -> Result<(), Fault> {
    let part = part(draft, &rows.of);
    for scope in scope.each(&rows.each)? {
        if !scope.holds(rows.if_.as_deref())? {
            continue;
        }
        let mut cells = Vec::new();
        for template in &rows.row {
            cells.push(scope.text(template)?.unwrap_or_else(|| words::NONE.to_string()));
        }
        if let Some(more) = &rows.more {
            let none = |it: &Value| if it.is_none() { words::NONE.into() } else { it.to_string() };
            cells.extend(items(&scope.eval(more)?).iter().map(none));
        }
        part.rows.push(cells);
    }
    Ok(())
}

fn draw(draft: &mut Draft, drawing: &Drawing, scope: &Scope) -> Result<(), Fault> {
    let part = part(draft, &drawing.of);
    for scope in scope.each(&drawing.each)? {
        if !scope.holds(drawing.if_.as_deref())? {
            continue;
        }
        let mut points = Vec::new();
        if let Some(all) = &drawing.points {
            let pairs = items(&scope.eval(all)?);
            let pairs = pairs.iter().map(query::floats);
            points.extend(pairs.filter_map(|it| match it[..] {
                [Some(x), Some(y)] => Some(Point { x, y, range: None }),
                _ => None,
            }));
        }
        if let Some(y) = &drawing.y {
            for (scope, position) in scope.each(&drawing.over)?.iter().zip(1_u32..) {
                let x = drawing.x.as_ref().map(|x| scope.number(x)).transpose()?;
                points.extend(point(x.unwrap_or(position.into()), &scope.eval(y)?));
            }
        }
        let name = scope.words(&drawing.name)?;
        let mark = match drawing.mark.as_str() {
            "bar" => Mark::Bar,
            "point" => Mark::Point,
            // A line of one point would not be seen.
            "line-or-point" if points.len() == 1 => Mark::Point,
            _ => Mark::Line,
        };
        points.retain(|it| it.y.is_finite());
        if !points.is_empty() {
            part.series.push(Series { name, points, mark, published: drawing.published });
        }
    }
    Ok(())
}

/// A number, a ratio or a list of a block each, as a point with its interval.
fn point(x: f64, value: &Value) -> Option<Point> {
    let interval = |it: stats::Interval| (it.low, it.high);
    match comparison(value) {
        Some(it) => Some(Point { x, y: it.ratio, range: it.interval.map(interval) }),
        None if is_list(value) => {
            let values = query::measured(value);
            Some(Point { x, y: median(&values)?, range: median_interval(&values).map(interval) })
        }
        None => Some(Point { x, y: float(value)?, range: None }),
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// The number of an expectation. An estimate without an interval leaves it open. Where no bound can
/// say it, the plan says whether it holds.
fn find(draft: &mut Draft, name: &str, spec: &Spec, scope: &Scope) -> Result<(), Fault> {
    let (value, claim) = match spec {
        Spec::Items { each, take, then: Some(claim) } if each.is_empty() => {
            (scope.eval(take)?, Some(scope.eval(claim)?))
        }
        spec => (value(spec, scope)?, None),
    };
    let Some(Point { y, range, .. }) = point(0.0, &value) else { return Ok(()) };
    let is_estimate = comparison(&value).is_some() || is_list(&value);
    let came_out = claim.map(|claim| match claim.as_str() {
        Some("costlier" | "cheaper") => CameOut::Yes,
        Some("equivalent") => CameOut::No,
        Some(_) => CameOut::Open,
        None => claim.is_true().into(),
    });
    let is_open = is_estimate && range.is_none();
    let came_out = if is_open { Some(CameOut::Open) } else { came_out };
    if y.is_finite() {
        draft.findings.push(Measured { name: name.to_string(), value: y, range, came_out });
    }
    Ok(())
}
