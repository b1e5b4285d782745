//! The results of the museum: for each published document what it claimed, what came out, and why.

use crate::shell::{Charts, PageError, render};
use document::{Document, Figure};
use serde_json::{Value, json};
use stats::words;

/// One exhibit that was run, with links to its files.
#[derive(Clone, Debug, Default)]
pub struct Repeated {
    /// Its document.
    pub document: Document,
    /// When it was run.
    pub date: String,
    /// The command that repeats it.
    pub command: String,
    /// The path of the raw data, from the page.
    pub raw: String,
    /// The path of its own page, from the page.
    pub page: String,
}

/// The template's values of an exhibit.
fn row(it: &Document, command: &str) -> Value {
    let findings = it.findings.iter().map(|finding| {
        let found = finding.found(words::number);
        // Expectation, whether it came out, the value with its interval.
        [finding.expected.clone(), finding.came_out.to_string(), found]
    });
    let findings: Vec<[String; 3]> = findings.collect();
    let conclusion = it.conclusion.to_string();
    json!({ "it": it, "command": command, "conclusion": conclusion, "findings": findings })
}

/// An exhibit as Markdown, for a folder of kept runs: numbers and words, no charts. `command`
/// repeats the run.
///
/// # Errors
/// As [`results`].
pub fn exhibit_markdown(it: &Document, command: &str) -> Result<String, PageError> {
    Ok(render("exhibit.md", Charts::None, &row(it, command))? + "\n")
}

/// The exhibits by the document that was published.
fn view(all: &[Repeated]) -> Value {
    let mut groups: Vec<(&Figure, Vec<Value>)> = Vec::new();
    for Repeated { document, date, command, raw, page } in all {
        let (published, mut row) = (&document.published, row(document, command));
        (row["date"], row["raw"], row["page"]) = (json!(date), json!(raw), json!(page));
        let same = groups.iter_mut().find(|it| it.0.document == published.document);
        match same {
            Some((_, rows)) => rows.push(row),
            None => groups.push((published, vec![row])),
        }
    }
    let group = |(published, rows)| json!({ "published": published, "rows": rows });
    json!({ "groups": groups.into_iter().map(group).collect::<Vec<_>>() })
}

/// Makes the page of results: one HTML file next to the files that it links to.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn results(all: &[Repeated]) -> Result<String, PageError> {
    render("results.html", Charts::None, &view(all))
}

/// The same as Markdown.
///
/// # Errors
/// As [`results`].
pub fn results_markdown(all: &[Repeated]) -> Result<String, PageError> {
    render("results.md", Charts::None, &view(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{CameOut, Conclusion, Finding, Section, Table};

    #[test]
    fn a_reader_finds_claim_outcome_reason_data_and_command() {
        let document = Document {
            title: "Think <time>".to_string(),
            published: Figure {
                document: "A stock server".to_string(),
                claim: "Nearly the same.".to_string(),
                source: "A report".to_string(),
                address: "https://doi.org/10.1/x".to_string(),
                ..Figure::default()
            },
            conclusion: Conclusion::Explained,
            concluded: "The sleep makes the difference.".to_string(),
            why: vec!["Clients sleep.".to_string()],
            findings: vec![Finding {
                name: "x".to_string(),
                came_out: CameOut::Yes,
                value: 1.5,
                range: Some((1.4, 1.6)),
                expected: "at most 2".to_string(),
            }],
            ..Document::default()
        };
        let one = Repeated {
            document,
            command: "roundhouse museum think-time".to_string(),
            raw: "museum-think-time.jsonl.gz".to_string(),
            ..Repeated::default()
        };
        let all = [one.clone(), one];
        let (html, markdown) = (results(&all), results_markdown(&all));
        let html = html.expect("it fits").replace("&#x2f;", "/");
        let markdown = markdown.expect("it fits");
        for want in [
            "A stock server",
            "Nearly the same.",
            "https://doi.org/10.1/x",
            "artefact explained",
            "The sleep makes the difference.",
            "Clients sleep.",
            "at most 2",
            "1.500 [1.400, 1.600]",
            "museum-think-time.jsonl.gz",
            "roundhouse museum think-time",
        ] {
            assert!(html.contains(want), "expected `{want}` in {html}");
            assert!(markdown.contains(want), "expected `{want}` in {markdown}");
        }
        assert!(html.contains("Think &lt;time&gt;") && !html.contains("src=\"http"));
        assert_eq!(markdown.matches("\n## ").count(), 1, "one document: {markdown}");
    }

    #[test]
    fn tables_findings_and_doubts_are_there() {
        let mut numbers = Table::new(&["server", "requests/s"]);
        numbers.row(["a|b", "12"].map(String::from));
        let (name, expected) = ("x".to_string(), "more than three".to_string());
        let document = Document {
            title: "Mixes".to_string(),
            interrupted: true,
            took_s: 3.0,
            flawed: Section { finding: "It was slow.".to_string(), numbers, ..Section::default() },
            findings: vec![Finding {
                name,
                came_out: CameOut::No,
                value: 2.0,
                range: Some((1.5, 2.5)),
                expected,
            }],
            doubts: vec!["Loopback.".to_string()],
            ..Document::default()
        };
        let text =
            exhibit_markdown(&document, "roundhouse museum mixes").expect("the template fits");
        for want in [
            "# Mixes\n",
            "`roundhouse museum mixes`, 3 s. Stopped before its end.",
            "| server | requests/s |\n|---|---|\n| a\\|b | 12 |\n",
            "| more than three | NO | 2 [1.500, 2.500] |",
            "**unresolved**: ",
            "- Loopback.",
        ] {
            assert!(text.contains(want), "expected `{want}` in\n{text}");
        }
    }
}
