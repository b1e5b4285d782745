//! Whether every link of a site leads somewhere.

use anyhow::bail;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Checks the links between the pages below `folder`; returns the number of pages.
///
/// # Errors
/// Names each page with a link to a file or an anchor that is not there.
pub(super) fn links(folder: &Path) -> anyhow::Result<usize> {
    let mut pages = BTreeMap::new();
    walk(folder, &mut pages)?;
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, html)| (path, values(html, "id").collect())).collect();
    let mut broken = Vec::new();
    for (path, html) in &pages {
        // The page of all pages, made for printing, repeats the others' links.
        if path.ends_with("print.html") || path.ends_with("toc.html") {
            continue;
        }
        for link in values(html, "href").chain(values(html, "src")) {
            if !leads_somewhere(path, link, &anchors) {
                broken.push(format!("{}: {link}", path.strip_prefix(folder)?.display()));
            }
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

fn leads_somewhere(page: &Path, link: &str, anchors: &BTreeMap<&PathBuf, BTreeSet<&str>>) -> bool {
    if link.contains("://") || link.starts_with("data:") || link.starts_with("mailto:") {
        return true;
    }
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
    if target.is_dir() {
        target.push("index.html");
    }
    match anchors.get(&target) {
        Some(ids) => anchor.is_empty() || ids.contains(anchor),
        None => target.exists(),
    }
}

fn walk(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, pages)?;
        } else if path.extension().is_some_and(|it| it == "html") {
            let text = fs::read_to_string(&path)?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// The values of an attribute in a page.
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
        write("a.html", r#"<a href="b.html#here">b</a> <a href="https://x/y">x</a>"#)
            .expect("a page");
        write("b.html", r#"<p id="here">b</p>"#).expect("another");
        assert_eq!(links(folder.path()).expect("sound"), 2);
        write("a.html", r#"<a href="b.html#gone">b</a> <img src="c.svg">"#).expect("a page");
        let error = links(folder.path()).expect_err("two are broken").to_string();
        assert!(error.contains("a.html: b.html#gone"), "{error}");
        assert!(error.contains("a.html: c.svg"), "{error}");
    }
}
