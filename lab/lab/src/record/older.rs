//! Records of earlier versions, whose servers were raced one trial after another.
//!
//! Their plans have no turns, and gates that say how often a disturbed trial was repeated. Read as
//! a race of one window a server, they have the same trials in the same blocks, so the same
//! analysis holds; attempts that were repeated are left out, as they did not count then.

use super::Row;
use serde_json::Value;

/// Settings that no race has any more.
const GATES_GONE: [&str; 2] = ["attempts", "retry_share"];

/// A row of any version; `None` for an attempt that was repeated.
pub(super) fn converted(mut row: Value) -> Result<Option<Row>, serde_json::Error> {
    if row["counted"] == false {
        return Ok(None);
    }
    if let Some(Value::Object(gates)) = row.pointer_mut("/plan/gates") {
        GATES_GONE.iter().for_each(|key| drop(gates.remove(*key)));
    }
    serde_json::from_value(row).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::record::read;
    use crate::verdict::analyse;
    use std::path::Path;

    /// Every race that is kept next to the pages that cite it can be read and has its answer.
    #[test]
    fn every_kept_race_has_its_answer() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let runs = root.ancestors().map(|it| it.join("runs")).find(|it| it.is_dir());
        let runs = runs.expect("the repository keeps its runs");
        let days = std::fs::read_dir(runs).expect("readable").flatten();
        let mut seen = 0;
        for file in days.filter_map(|day| std::fs::read_dir(day.path().join("races")).ok()) {
            let files = file.flatten().map(|it| it.path());
            for path in files.filter(|it| it.to_string_lossy().contains(".jsonl")) {
                for run in read(&path).unwrap_or_else(|why| panic!("{why:#}")) {
                    let summary = analyse(&run);
                    let known = summary.answer.costs.iter().filter(|it| it.is_known()).count();
                    assert_eq!(known, summary.points.len(), "{}", path.display());
                    assert!(!summary.sentence.contains("No answer"), "{}", summary.sentence);
                    seen += 1;
                }
            }
        }
        assert!(seen >= 8, "only {seen} kept races were found");
    }
}
