//! Size limits: a line fits into a window, a file can be read in one sitting, and a type's name can
//! be searched for. clippy holds the length of a function.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

/// Columns of a line of source.
const COLUMNS_MAX: usize = 100;
/// Folders with their limit of lines a file; the first match counts. An architecture is read in one
/// sitting; `parts` keeps the engines' own files that short.
const FILE_MAX: &[(&str, usize)] = &[
    ("bare/", 200),
    ("runtime/engines/src/parts/", 600),
    ("runtime/engines/src/", 300),
    ("", 600),
];

/// Crates that may define a public type of one name.
const NAME_MAX: usize = 2;
/// Folders whose types nobody imports.
const OUTSIDE: &[&str] = &["xtask", "benches", "templates"];
/// The file of the names that more crates define, with their present number.
const EXCEPTIONS: &str = "xtask/tidy.toml";

/// Lines of source have at most 100 columns. A link cannot be folded and may be longer.
pub(super) fn columns(tree: &Tree) -> Vec<Finding> {
    tree.judge(|file, line, _| {
        let columns = line.chars().count();
        let is_read = file.is_source() || file.path == ".ci/run";
        let is_long = is_read && columns > COLUMNS_MAX && !line.contains("://");
        is_long.then(|| format!("expected at most {COLUMNS_MAX} columns, found {columns}"))
    })
}

/// Files are at most 600 lines, those of engines 300, bare loops 200.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_source()) {
        let limit = FILE_MAX.iter().find(|(folder, _)| file.path.starts_with(folder));
        let (lines, most) = (file.text.lines().count(), limit.map_or(usize::MAX, |it| it.1));
        if lines > most {
            let what = format!("expected at most {most} lines, found {lines}: split it");
            found.push(Finding::new(&file.path, 0, what));
        }
    }
    found
}

/// A public type's name is defined in at most two crates, so that it can be searched for. A name in
/// more of them is listed with its present number; the list can only shrink.
pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    let mut crates_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let Some((of, _)) = file.path.split_once("/src/") else { continue };
        if OUTSIDE.contains(&of.split('/').next().unwrap_or_default()) {
            continue;
        }
        for line in file.code.lines() {
            let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
            let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
                continue;
            };
            let end = rest.find(|it: char| !it.is_alphanumeric()).unwrap_or(rest.len());
            crates_of.entry(&rest[..end]).or_default().insert(of);
        }
    }
    let listed = tree.toml(EXCEPTIONS).remove("names");
    let listed = listed.and_then(|names| names.as_table().cloned()).unwrap_or_default();
    let names: BTreeSet<&str> =
        crates_of.keys().copied().chain(listed.keys().map(|it| &**it)).collect();
    let finding = |name: &str| {
        let present = crates_of.get(name).map_or(0, BTreeSet::len);
        let excused = listed.get(name).and_then(toml::Value::as_integer);
        let is_right = match excused {
            None => present <= NAME_MAX,
            Some(number) => present > NAME_MAX && present as i64 == number,
        };
        let what = format!(
            "expected `{name}` in at most {NAME_MAX} crates, or as often as the list says, found \
             {present} crates: rename one, or correct the list"
        );
        (!is_right).then(|| Finding::new(EXCEPTIONS, 0, what))
    };
    names.into_iter().filter_map(finding).collect()
}
