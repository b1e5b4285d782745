//! The rows of a run that was stopped, which its continuation need not measure again.

use serde_json::Value;
use std::fs;
use std::io;
use std::path::Path;

/// Rows of a run that has no record yet, in their order.
#[derive(Debug, Default)]
pub struct Earlier {
    date: Option<String>,
    rows: Vec<Option<Value>>,
}

/// Whether a row has every entry of `key`.
fn has(row: &Value, key: &Value) -> bool {
    key.as_object().is_some_and(|key| key.iter().all(|(name, value)| row[name] == *value))
}

impl Earlier {
    /// The rows after the last first row, if that is `head` and no record follows. Cuts off a last
    /// line without an end.
    ///
    /// # Errors
    /// If the file exists and cannot be read or cut.
    pub fn read(raw: &Path, head: &Value) -> io::Result<Earlier> {
        let text = match fs::read_to_string(raw) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Earlier::default()),
            text => text?,
        };
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            fs::OpenOptions::new().write(true).open(raw)?.set_len(whole as u64)?;
        }
        let rows = text[..whole].lines().map(|line| serde_json::from_str(line).unwrap_or_default());
        let mut rows: Vec<Value> = rows.collect();
        let Some(first) = rows.iter().rposition(|row| row["row"] == "museum") else {
            return Ok(Earlier::default());
        };
        let rows = rows.split_off(first);
        let is_over = rows.iter().any(|row| row["row"] == "exhibit");
        if is_over || !has(&rows[0], head) {
            return Ok(Earlier::default());
        }
        let date = rows[0]["date"].as_str().map(str::to_string);
        Ok(Earlier { date, rows: rows.into_iter().map(Some).collect() })
    }

    /// When that run began; `None` if there is no such run.
    pub fn date(&self) -> Option<String> {
        self.date.clone()
    }

    /// Takes the first row with every entry of `key`.
    pub fn take(&mut self, key: &Value) -> Option<Value> {
        let fits = |row: &&mut Option<Value>| row.as_ref().is_some_and(|row| has(row, key));
        self.rows.iter_mut().find(fits).and_then(Option::take)
    }

    /// Takes the lines of the last race of the plan with this hash.
    pub fn race(&mut self, hash: &str) -> Option<String> {
        let is_race = |row: &&mut Option<Value>| row.as_ref().is_some_and(|it| it["row"] == "race");
        let mut lines: Option<String> = None;
        let mut mine = false;
        for row in self.rows.iter_mut().filter(is_race) {
            let line = row.as_ref().map(|row| &row["race"]).unwrap_or(&Value::Null);
            if line["row"] == "manifest" {
                mine = line["plan_hash"] == *hash;
                lines = lines.filter(|_| !mine);
            }
            if mine {
                let line = format!("{line}\n");
                lines.get_or_insert_default().push_str(&line);
                *row = None;
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stopped_run_is_continued_and_an_ended_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let raw = dir.path().join("raw.jsonl");
        let head = json!({"row": "museum", "seed": 1});
        let check = |text: &str, date: Option<&str>, ones: usize| {
            fs::write(&raw, text).expect("a file");
            let mut found = Earlier::read(&raw, &head).expect("it can be read");
            assert_eq!(found.date().as_deref(), date, "{text}");
            let key = json!({"row": "crowd", "name": "a"});
            let taken = std::iter::from_fn(|| found.take(&key)).count();
            assert_eq!(taken, ones, "{text}");
        };
        let begun = r#"{"row":"museum","seed":1,"date":"d"}"#;
        let (one, two) = (r#"{"row":"crowd","name":"a"}"#, r#"{"row":"crowd","name":"b"}"#);
        check("", None, 0);
        check(&format!("{begun}\n{one}\n{two}\n{one}\n{one}"), Some("d"), 2);
        assert!(fs::read_to_string(&raw).is_ok_and(|text| text.ends_with('\n')), "cut");
        check(&format!("{begun}\n{one}\n{{\"row\":\"exhibit\"}}\n"), None, 0);
        check(&format!("{}\n{one}\n", begun.replace(":1", ":2")), None, 0);
        assert!(Earlier::read(&dir.path().join("none"), &head).is_ok_and(|it| it.date.is_none()));
    }
}
