//! The use of time: CPU per request, in the kernel and outside it, and the system calls.

use super::{Chart, chart, legend, look, short};
use crate::words;
use document::Table;
use lab::record::Run;
use lab::verdict::{ArmSummary, Metric, PointSummary, Summary};
use serde_json::{Value, json};

/// The number of system calls with a separate bar; one bar holds the rest.
const CALLS_MAX: usize = 7;

/// CPU per request: one chart for each load point outside curves.
pub fn costs(run: &Run, summary: &Summary) -> Vec<Chart> {
    let plan = &run.manifest.plan;
    let any = summary.points.iter().any(|point| words::is_alone(plan, &point.point));
    let points = summary.points.iter().enumerate();
    points
        .filter(|(_, it)| !any || words::is_alone(plan, &it.point))
        .filter_map(|(at, it)| cost(run, it, at))
        .collect()
}

fn cost(run: &Run, point: &PointSummary, at: usize) -> Option<Chart> {
    let plan = &run.manifest.plan;
    let arms: Vec<&ArmSummary> =
        point.arms.iter().filter(|it| it.median(Metric::Cpu).is_some()).collect();
    if arms.is_empty() {
        return None;
    }
    let mut table = Table::new(&["Server", "CPU / request", "in the kernel"]);
    let share = |arm: &ArmSummary| arm.cost.as_ref().and_then(|it| it.system_share);
    for arm in &arms {
        table.row(vec![
            arm.arm.clone(),
            words::or_none(arm.median(Metric::Cpu), words::time),
            words::or_none(share(arm), |it| format!("{:.0} %", it * 100.0)),
        ]);
    }
    let names: Vec<&str> = arms.iter().map(|arm| arm.arm.as_str()).collect();
    let colours: Vec<String> = arms.iter().map(|arm| look(plan, &arm.arm).colour).collect();
    let split = arms.iter().all(|arm| share(arm).is_some());
    let bar = |name: &str, part: &dyn Fn(&ArmSummary) -> f64, opacity: f64| -> Value {
        // The legend has one colour for both, so the lighter part is hatched.
        let shape = if opacity < 0.5 { "/" } else { "" };
        let x: Vec<f64> = arms
            .iter()
            .map(|arm| short(arm.median(Metric::Cpu).unwrap_or(0.0) / 1e3 * part(arm)))
            .collect();
        json!({"type": "bar", "orientation": "h", "x": x, "y": names, "name": name,
               "marker": {"color": colours, "opacity": opacity, "pattern": {"shape": shape}},
               "hovertemplate": format!("%{{y}}, {name}: %{{x:.3f}} µs<extra></extra>")})
    };
    let mut data = match split {
        true => vec![
            bar("in the kernel", &|arm| share(arm).unwrap_or(0.0), 0.9),
            bar("in the program", &|arm| 1.0 - share(arm).unwrap_or(0.0), 0.45),
        ],
        false => vec![bar("median", &|_| 1.0, 0.85)],
    };
    data.push(singles(run, point));
    let figure = json!({"data": data, "layout": {
        "barmode": "stack", "legend": legend(), "bargap": 0.4,
        "margin": {"l": 8, "r": 16, "t": 4, "b": 44},
        "xaxis": {"title": {"text": "µs of server CPU per request"}, "rangemode": "tozero",
                  "gridcolor": "$grid", "zeroline": false},
        "yaxis": {"autorange": "reversed", "automargin": true, "showgrid": false},
    }});
    let caption = "Medians of all the server's processes and threads, split by samples at the \
        kernel's tick. Shorter is better.";
    let height = 130 + 34 * arms.len();
    Some(chart(&format!("cost-{at}"), point.point.clone(), caption, height, &figure, table))
}

fn singles(run: &Run, point: &PointSummary) -> Value {
    let (x, y): (Vec<f64>, Vec<&str>) = run
        .trials
        .iter()
        .filter(|trial| trial.point == point.point)
        .filter_map(|trial| Some((short(Metric::Cpu.in_trial(trial)? / 1e3), trial.arm.as_str())))
        .unzip();
    json!({"type": "scatter", "mode": "markers", "x": x, "y": y,
           "name": "single trials",
           "marker": {"color": "$card", "size": 6, "line": {"color": "$text", "width": 1.2}},
           "hovertemplate": "%{y}, one trial: %{x:.3f} µs<extra></extra>"})
}

/// System calls per request, one chart for each load point with a census.
pub fn census(run: &Run) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points.filter_map(|(at, point)| calls(run, &point.name, at)).collect()
}

fn calls(run: &Run, point: &str, at: usize) -> Option<Chart> {
    let here: Vec<_> = run
        .census
        .iter()
        .filter(|census| census.point == point && !census.calls.is_empty())
        .collect();
    if here.is_empty() {
        return None;
    }
    let mut totals: Vec<(&str, f64)> = Vec::new();
    for call in here.iter().flat_map(|census| &census.calls) {
        match totals.iter_mut().find(|(name, _)| *name == call.name) {
            Some((_, sum)) => *sum += call.per_request,
            None => totals.push((&call.name, call.per_request)),
        }
    }
    totals.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names: Vec<&str> = totals.iter().take(CALLS_MAX).map(|it| it.0).collect();
    let arms: Vec<&str> = here.iter().map(|census| census.arm.as_str()).collect();
    let mut data = Vec::new();
    for (index, name) in names.iter().copied().chain(["others"]).enumerate() {
        let of = |census: &lab::census::Census| -> f64 {
            let mine = census.calls.iter().filter(|call| match name {
                "others" => !names.contains(&call.name.as_str()),
                name => call.name == name,
            });
            mine.map(|call| call.per_request).sum()
        };
        let x: Vec<f64> = here.iter().map(|census| short(of(census))).collect();
        if x.iter().all(|&it| it == 0.0) {
            continue;
        }
        let colour =
            if name == "others" { "$muted".to_string() } else { format!("$arm{}", index % 7) };
        data.push(json!({"type": "bar", "orientation": "h", "name": name, "x": x, "y": arms,
            "marker": {"color": colour},
            "hovertemplate": "%{y}, %{fullData.name}: %{x:.3f} per request<extra></extra>"}));
    }
    let mut table = Table::new(&["Server", "Call", "per request", "failed"]);
    for census in &here {
        for call in &census.calls {
            table.row(vec![
                census.arm.clone(),
                call.name.clone(),
                words::rate(call.per_request),
                words::grouped(call.errors as f64),
            ]);
        }
    }
    let figure = json!({"data": data, "layout": {
        "barmode": "stack", "bargap": 0.4, "margin": {"l": 8, "r": 16, "t": 4, "b": 44},
        "legend": legend(),
        "xaxis": {"title": {"text": "system calls per request"}, "rangemode": "tozero",
                  "gridcolor": "$grid", "zeroline": false},
        "yaxis": {"autorange": "reversed", "automargin": true, "showgrid": false},
    }});
    let tool = here.iter().map(|census| census.tool.as_str()).find(|tool| !tool.is_empty());
    let caption = format!(
        "Counted in a separate run{}; no speed was taken from it.",
        tool.map(|tool| format!(" by {tool}")).unwrap_or_default()
    );
    let height = 130 + 34 * arms.len();
    Some(chart(&format!("calls-{at}"), point.to_string(), &caption, height, &figure, table))
}
