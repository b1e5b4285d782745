//! Points, and the forms in which they are told: a table, a line of JSON, a summary of a class.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use language::tr;
use serde::{Deserialize, Serialize};

use crate::trials::{TRIALS, Trial};

/// The points of each trial that counts.
#[derive(Clone, Debug, Default)]
pub struct Weights(BTreeMap<&'static str, u32>);

/// One row of a grade; docs/grade.md describes the keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GradedTrial {
    /// The trial's name.
    pub name: String,
    pub(crate) about: String,
    /// `passed`, `failed`, or `not tried` because the time for all trials was over.
    pub verdict: String,
    /// The points that it gave.
    pub points: u32,
    pub(crate) of: u32,
    /// The reason for lost points; empty without.
    pub reason: String,
    pub(crate) seconds: f64,
    pub(crate) repeat: String,
}

/// The grade of one server; docs/grade.md describes the keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Grade {
    /// Its path as given.
    pub server: String,
    pub(crate) points: u32,
    pub(crate) of: u32,
    pub(crate) framing: String,
    pub(crate) not_isolated: String,
    /// Why no trial was possible, such as the end of a build's output; empty if trials were made.
    pub obstacle: String,
    pub(crate) seconds: f64,
    /// Each trial.
    pub trials: Vec<GradedTrial>,
}

impl Weights {
    /// The points of a TOML table, `half-lines = 10`, for all trials or for `only` these.
    ///
    /// # Errors
    /// `text` is no such table, or a trial is unknown.
    pub fn read(text: &str, only: &[String]) -> Result<Weights, String> {
        let table: BTreeMap<String, u32> = toml::from_str(text)
            .map_err(|error| format!("expected lines `TRIAL = POINTS`: {}", error.message()))?;
        let mut weights: BTreeMap<_, _> = TRIALS.iter().map(|it| (it.name, it.points)).collect();
        for (name, points) in table {
            weights.insert(known(&name)?, points);
        }
        let only = only.iter().map(|name| known(name)).collect::<Result<Vec<_>, _>>()?;
        weights.retain(|name, points| *points > 0 && (only.is_empty() || only.contains(name)));
        Ok(Weights(weights))
    }

    /// The chosen trials with their points.
    pub(crate) fn trials(&self) -> impl Iterator<Item = Trial<'static>> {
        TRIALS.iter().filter_map(|it| Some(Trial { points: *self.0.get(it.name)?, ..*it }))
    }
}

/// The name of a trial, if there is one.
fn known(name: &str) -> Result<&'static str, String> {
    let names: Vec<&str> = TRIALS.iter().map(|trial| trial.name).collect();
    names
        .iter()
        .copied()
        .find(|known| *known == name)
        .ok_or_else(|| format!("expected a trial ({}), found `{name}`", names.join(", ")))
}

impl Grade {
    /// The points as percent of the possible ones.
    pub fn percent(&self) -> f64 {
        f64::from(self.points) * 100.0 / f64::from(self.of.max(1))
    }

    /// The grade of a server of which nothing but an obstacle is known.
    pub fn obstacle(server: &str, of: u32, obstacle: String) -> Grade {
        Grade { server: server.to_owned(), of, obstacle, ..Grade::default() }
    }

    /// The server's line in the table of a class.
    pub fn csv(&self, names: &[String]) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let cells = names.iter().map(|name| {
            let row = self.trials.iter().find(|row| row.name == *name);
            row.map_or(String::new(), |row| row.points.to_string())
        });
        let Grade { server, points, of, obstacle, .. } = self;
        let head = format!("{},{points},{of},{}", quoted(server), quoted(obstacle));
        [head].into_iter().chain(cells).collect::<Vec<_>>().join(",") + "\n"
    }

    /// The points by trial as one line for Autolab.
    pub fn autolab(&self) -> String {
        let scores: BTreeMap<_, _> =
            self.trials.iter().map(|row| (&row.name, row.points)).collect();
        serde_json::json!({ "scores": scores }).to_string()
    }

    /// A table of at most 80 columns, and how to repeat what failed.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(80);
        table.set_header(["trial", "points", "verdict", "reason"].map(tr));
        for row in &self.trials {
            let why = if row.reason.is_empty() { &row.about } else { &row.reason };
            let points = format!("{}/{}", row.points, row.of);
            table.add_row([&*row.name, &points, &tr(&row.verdict), &tr(why)]);
        }
        let mut notes = String::new();
        // Writing into a String cannot fail.
        for row in self.trials.iter().filter(|row| row.points < row.of) {
            let _ = writeln!(notes, "again: {}", row.repeat);
        }
        if !self.not_isolated.is_empty() {
            let _ = writeln!(notes, "not isolated: {}", self.not_isolated);
        }
        let Grade { points, of, seconds, framing, .. } = self;
        let _ = writeln!(notes, "{points} of {of} points in {seconds:.0} s, framing {framing}");
        match self.obstacle.as_str() {
            "" => format!("{}\n{table}\n{}", self.server, tr(&notes)),
            why => {
                let why = format!("no trial was possible: {why}\n{notes}");
                format!("{}\n{}", self.server, tr(&why))
            }
        }
    }
}

/// The grades of a class in one line of JSON: the number of servers, the mean of their points in
/// percent, and the number of servers that lost points, by trial.
pub fn summary(grades: &[Grade]) -> String {
    let mut lost: BTreeMap<&str, u32> = BTreeMap::new();
    for row in grades.iter().flat_map(|grade| &grade.trials).filter(|row| row.points < row.of) {
        *lost.entry(&row.name).or_default() += 1;
    }
    let mean = grades.iter().map(Grade::percent).sum::<f64>() / grades.len().max(1) as f64;
    let numbers = serde_json::json!({"servers": grades.len(), "mean_percent": mean, "lost": lost});
    serde_json::json!({ "summary": numbers }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grade() -> Grade {
        let row = |name: &str, points, reason: String| {
            let repeat = format!("roundhouse grade ./stockserver --only {name}");
            let (name, about) = (name.to_owned(), "a promise".to_owned());
            let (verdict, of, seconds) = ("failed".to_owned(), 7, 0.1);
            GradedTrial { name, about, verdict, points, of, reason, seconds, repeat }
        };
        let long = "expected `1 2 3`, found `1 2 4` ".repeat(5);
        let trials = vec![row("golden", 7, String::new()), row("half-lines", 0, long)];
        let not_isolated = "EPERM".to_owned();
        Grade { points: 7, of: 14, seconds: 3.2, not_isolated, trials, ..Grade::default() }
    }

    #[test]
    fn a_table_fits_a_terminal_and_tells_each_loss() {
        let text = grade().text();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for want in ["7 of 14 points in 3 s", "7/7", "isolated: EPERM", "./stockserver --only h"] {
            assert!(text.contains(want), "expected {want} in\n{text}");
        }
    }

    #[test]
    fn the_page_names_every_key_and_every_trial() {
        let json = serde_json::to_value(grade()).expect("plain data");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grade.md");
        let page = std::fs::read_to_string(path).expect("the page of this command");
        for object in [&json, &json["trials"][1]] {
            for key in object.as_object().expect("an object").keys() {
                assert!(page.contains(&format!("`{key}`")), "docs/grade.md lacks {key}");
            }
        }
        for trial in TRIALS {
            let row = format!("| `{}` | {} |", trial.name, trial.points);
            assert!(page.contains(&row), "docs/grade.md lacks {row}");
        }
    }

    #[test]
    fn a_class_is_summed_up() {
        let found = summary(&[grade(), Grade { points: 14, trials: Vec::new(), ..grade() }]);
        assert!(found.contains("\"lost\":{\"half-lines\":1}"), "{found}");
        assert!(found.contains("\"mean_percent\":75.0"), "{found}");
    }

    #[test]
    fn weights_replace_points_and_choose_trials() {
        let sum = |text: &str, only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            let weights = Weights::read(text, &only)?;
            Ok::<u32, String>(weights.trials().map(|trial| trial.points).sum())
        };
        assert_eq!(sum("", &[]), Ok(100));
        assert_eq!(sum("half-lines = 10\ngolden = 0\n", &[]), Ok(100 + 4 - 5));
        assert_eq!(sum("half-lines = 10", &["half-lines"]), Ok(10));
        assert!(sum("half-line = 1", &[]).is_err_and(|why| why.contains("found `half-line`")));
        assert!(sum("golden = -1", &[]).is_err_and(|why| why.contains("TRIAL = POINTS")));
    }
}
