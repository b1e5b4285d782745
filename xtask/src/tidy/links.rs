//! Whether every link of a page leads to a file and, where it names one, to a heading.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Finding, Tree};

/// Checks the links and the pictures of all pages of Markdown.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.ending() == "md");
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.clone().map(|page| (page.path.as_str(), anchors(page))).collect();
    let leads_somewhere = |page: &File, link: &str| {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { page.path.clone() } else { below(&page.path, file) };
        match anchors.get(target.as_str()) {
            Some(anchors) => anchor.is_empty() || anchors.contains(anchor),
            None => tree.paths.contains(&target),
        }
    };
    let mut found = Vec::new();
    for page in pages {
        for (line, text) in prose(page) {
            for link in links_of(&text).into_iter().filter(|link| !leads_somewhere(page, link)) {
                let what = format!("expected a file or a heading behind the link `{link}`");
                found.push(Finding::new(&page.path, line, what));
            }
        }
    }
    found
}

/// The lines of a page outside its code, with their numbers.
fn prose(page: &File) -> impl Iterator<Item = (usize, String)> {
    let mut is_code = false;
    let lines = page.text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(|(at, line)| (at + 1, line.split('`').step_by(2).collect()))
}

/// The places in this tree that a line names.
fn links_of(line: &str) -> Vec<&str> {
    let after = |start: &'static str, end| {
        line.split(start).skip(1).filter_map(move |rest| rest.split_once(end)).map(|it| it.0)
    };
    let of_html = ["href=\"", "src=\"", "srcset=\""].into_iter().flat_map(|it| after(it, '"'));
    let links = after("](", ')').chain(of_html);
    links.filter(|link| !link.contains([':', ' '])).collect()
}

/// The anchors of the headings of a page, as GitHub makes them.
fn anchors(page: &File) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in page.text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#').strip_prefix(' ');
        let Some(heading) = heading.filter(|_| line.starts_with('#') && !is_code) else { continue };
        let sign = |c: char| match c {
            _ if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
            _ => c.is_whitespace().then_some('-'),
        };
        // Of a link the words count.
        let words: String = heading
            .split("](")
            .enumerate()
            .map(
                |(at, part)| {
                    if at == 0 { part } else { part.split_once(')').map_or("", |it| it.1) }
                },
            )
            .collect();
        let first: String = words.trim().chars().filter_map(sign).collect();
        let copies = (1..).map(|copy| format!("{first}-{copy}"));
        let mut names = std::iter::once(first.clone()).chain(copies);
        anchors.extend(names.find(|name| !anchors.contains(name)));
    }
    anchors
}

/// The path of `link` on the page at `page`, from the root.
fn below(page: &str, link: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
