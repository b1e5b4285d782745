//! Whether every link of a site's sources leads somewhere.

use anyhow::bail;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A page of Markdown.
#[derive(Default)]
struct Page {
    /// The names of its headings, as mdBook and GitHub make them.
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

impl Page {
    fn read(text: &str) -> Page {
        let mut page = Page::default();
        let mut is_code = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if !is_code {
                page.line(line);
            }
        }
        page
    }

    fn line(&mut self, line: &str) {
        let prose: String = line.split('`').step_by(2).collect();
        super::relink(&prose, |link| {
            self.links.push(link.to_owned());
            None
        });
        let of_html = values(line, "href").chain(values(line, "src")).map(str::to_owned);
        self.links.extend(of_html.filter(|link| !link.contains(':')));
        self.anchors.extend(values(line, "id").map(str::to_owned));
        if let Some(heading) = line.trim_start_matches('#').strip_prefix(' ')
            && line.starts_with('#')
        {
            let words = super::relink(heading, |_| None);
            let first = anchor(&words);
            let name = |copy: usize| match copy {
                0 => first.clone(),
                copy => format!("{first}-{copy}"),
            };
            let free = (0..).map(name).find(|name| !self.anchors.contains(name));
            self.anchors.extend(free);
        }
    }
}

/// The anchor of a heading: letters and digits in lower case, blanks as `-`, no other signs.
fn anchor(heading: &str) -> String {
    let sign = |c: char| match c {
        _ if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        _ => c.is_whitespace().then_some('-'),
    };
    heading.trim().chars().filter_map(sign).collect()
}

/// Checks the links of the pages below `folder`; returns the number of pages.
///
/// # Errors
/// Names each page with a link to a file or an anchor that is not there.
pub(super) fn links(folder: &Path) -> anyhow::Result<usize> {
    let mut pages = BTreeMap::new();
    walk(folder, &mut pages)?;
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| !leads_somewhere(path, link, &pages)) {
            broken.push(format!("{}: {link}", path.strip_prefix(folder)?.display()));
        }
    }
    match broken.is_empty() {
        true => Ok(pages.len()),
        false => bail!(
            "expected a file or an anchor behind each of these links, found none:\n{}",
            broken.join("\n")
        ),
    }
}

fn leads_somewhere(page: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut target = page.to_path_buf();
    if !file.is_empty() {
        target.pop();
        for part in file.split('/').filter(|part| *part != ".") {
            match part {
                ".." => _ = target.pop(),
                part => target.push(part),
            }
        }
    }
    match pages.get(&target) {
        Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
        None => target.is_file(),
    }
}

fn walk(folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, pages)?;
        } else if path.extension().is_some_and(|it| it == "md") {
            let page = Page::read(&fs::read_to_string(&path)?);
            pages.insert(path, page);
        }
    }
    Ok(())
}

/// The values of an attribute in HTML.
fn values<'h>(html: &'h str, name: &str) -> impl Iterator<Item = &'h str> {
    let start = format!(" {name}=\"");
    html.match_indices(&start)
        .map(|(at, found)| &html[at + found.len()..])
        .filter_map(|rest| rest.split('"').next())
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_link_and_a_missing_anchor_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        let sound = "[b](b.md#what-is-b) [x](https://x/y) `[no](no.md)`\n```\n[no](no.md)\n```\n";
        write("a.md", sound).expect("a page");
        write("b.md", "## What *is* `b`?\n").expect("another");
        assert_eq!(links(folder.path()).expect("sound"), 2);
        write("a.md", "[b](b.md#gone) and <img src=\"c.svg\">").expect("a page");
        let error = links(folder.path()).expect_err("two are broken").to_string();
        assert!(error.contains("a.md: b.md#gone"), "{error}");
        assert!(error.contains("a.md: c.svg"), "{error}");
    }
}
