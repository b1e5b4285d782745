//! The rows of a flow's data: a CSV file with a line of names (RFC 4180), or a JSON object a line.

use super::reply::plain;
use crate::parse::Usage;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use sys::input;

/// Rows of values, each with every column.
#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Arc<[String]>>,
}

impl Data {
    /// Reads the file; its ending says what it is.
    pub(super) fn read(path: &Path) -> Result<Self, Usage> {
        let named = |why: String| Usage(format!("{}: {why}", path.display()));
        let text = input::read_text(path, input::SMALL)
            .map_err(|why| named(format!("cannot read: {why}")))?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let data = match ending {
            "csv" => csv(&text),
            "jsonl" => lines(&text),
            _ => Err("expected data in a file .csv or .jsonl, found another ending".to_owned()),
        };
        let data = data.map_err(named)?;
        if data.rows.is_empty() {
            return Err(named("expected a row of data or more, found none".to_owned()));
        }
        Ok(data)
    }
}

fn csv(text: &str) -> Result<Data, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let bad = |why: csv::Error| format!("expected rows of CSV under a line of names: {why}");
    let columns = reader.headers().map_err(bad)?.iter().map(str::to_owned).collect();
    let row = |row: csv::StringRecord| row.iter().map(str::to_owned).collect::<Arc<[String]>>();
    let rows =
        reader.records().map(|record| record.map(row)).collect::<Result<_, _>>().map_err(bad)?;
    Ok(Data { columns, rows })
}

fn lines(text: &str) -> Result<Data, String> {
    let mut data = Data::default();
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    for (line, number) in lines {
        let row: Map<String, Value> = serde_json::from_str(line)
            .map_err(|why| format!("line {number}: expected a JSON object: {why}"))?;
        if data.rows.is_empty() {
            data.columns = row.keys().cloned().collect();
        }
        let value = |name: &String| {
            row.get(name).map(plain).ok_or_else(|| {
                format!("line {number}: expected `{name}`, as the first row has it, found none")
            })
        };
        let values = data.columns.iter().map(value).collect::<Result<_, _>>()?;
        data.rows.push(values);
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_columns() {
        let check = |data: Data| {
            assert_eq!(data.columns, ["name", "pin"]);
            let rows: Vec<Vec<String>> = data.rows.iter().map(|row| row.to_vec()).collect();
            assert_eq!(rows, [["a, b", "1"], ["c\"d", "2"]]);
        };
        check(csv("name,pin\n\"a, b\",1\r\n\"c\"\"d\",2\n").expect("two rows"));
        let text = "{\"name\":\"a, b\",\"pin\":1}\n\n{\"pin\":2,\"name\":\"c\\\"d\",\"more\":0}\n";
        check(lines(text).expect("two rows"));
    }

    #[test]
    fn a_row_that_is_none_is_named() {
        let check = |data: Result<Data, String>, want: &str| {
            let why = data.map(|data| data.rows).expect_err(want);
            assert!(why.contains(want), "{why}");
        };
        check(csv("a,b\n1,2\n3\n"), "line: 3");
        check(lines("{\"a\":1}\n[1]"), "line 2: expected a JSON object");
        check(lines("{\"a\":1}\n{\"b\":1}"), "line 2: expected `a`");
        let refused = |name: &str, want: &str| {
            let Usage(why) = Data::read(Path::new(name)).expect_err(name);
            assert!(why.contains(want), "{why}");
        };
        refused("/nowhere/a.csv", "/nowhere/a.csv: cannot read");
        refused("/dev/null", "expected data in a file .csv or .jsonl");
    }
}
