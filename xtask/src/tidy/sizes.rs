//! Size limits: a function fits on one screen, a file can be read in one sitting, and a type's name
//! can be searched for.
//!
//! Files and functions have no exceptions. Names that too many crates define are in
//! `xtask/tidy.toml` with their present number. A larger entry is a finding too, so the list can
//! only shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::code::functions;
use super::{File, Finding, Tree};

/// Columns of a line of source.
const COLUMNS_MAX: usize = 100;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_MAX: usize = 70;
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
/// The file of the exceptions.
const EXCEPTIONS: &str = "xtask/tidy.toml";

/// Lines of source have at most 100 columns. A link cannot be folded and may be longer.
pub(super) fn columns(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let sources = tree.files.iter().filter(|file| file.is_source() || file.path == ".ci/run");
    for file in sources {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !line.contains("://") {
                let what = format!("expected at most {COLUMNS_MAX} columns, found {columns}");
                found.push(Finding { path: file.path.clone(), line: index + 1, what });
            }
        }
    }
    found
}

fn too_large(size: usize, size_max: usize, unit: &str, what: &str, remedy: &str) -> Option<String> {
    let text = || format!("expected at most {size_max} {unit}, found {size}: {remedy} `{what}`");
    (size > size_max).then(text)
}

/// Files are at most 600 lines, those of engines 300, bare loops 200.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let finding = |file: &File| {
        let (_, size_max) = FILE_MAX.iter().find(|(folder, _)| file.path.starts_with(folder))?;
        let lines = file.text.lines().count();
        let what = too_large(lines, *size_max, "lines", &file.path, "split")?;
        Some(Finding { path: file.path.clone(), line: 0, what })
    };
    tree.files.iter().filter(|file| file.is_source()).filter_map(finding).collect()
}

/// Functions are at most 70 lines.
pub(super) fn functions_short(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        found.extend(functions(&file.code).into_iter().filter_map(|it| {
            let lines = it.last - it.first + 1;
            let what = too_large(lines, FUNCTION_MAX, "lines", &it.name, "split")?;
            Some(Finding { path: file.path.clone(), line: it.first, what })
        }));
    }
    found
}

/// The names of public types, with the number of crates that define one.
fn crates_of_names(tree: &Tree) -> BTreeMap<&str, usize> {
    let mut crates_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let Some((of, _)) = file.path.split_once("/src/") else { continue };
        if OUTSIDE.contains(&of.split('/').next().unwrap_or_default()) {
            continue;
        }
        for line in file.code.lines() {
            let Some(rest) = line.strip_prefix("pub ") else { continue };
            let kinds = ["struct ", "enum ", "trait ", "type "];
            let Some(rest) = kinds.iter().find_map(|kind| rest.strip_prefix(kind)) else {
                continue;
            };
            let end = rest.find(|it: char| !it.is_alphanumeric()).unwrap_or(rest.len());
            crates_of.entry(&rest[..end]).or_default().insert(of);
        }
    }
    crates_of.into_iter().map(|(name, crates)| (name, crates.len())).collect()
}

/// The names that more crates define than may, with their present number.
fn exceptions_of_names(tree: &Tree) -> toml::Table {
    let names = tree.toml(EXCEPTIONS).remove("names");
    names.and_then(|names| names.as_table().cloned()).unwrap_or_default()
}

/// A public type's name is defined in at most two crates, so that it can be searched for.
pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    let excused = exceptions_of_names(tree);
    let finding = |(name, size): (&str, usize)| {
        let most = excused.get(name).and_then(toml::Value::as_integer).unwrap_or(0) as usize;
        let unit = "crates with a public type of one name";
        let what = too_large(size, NAME_MAX.max(most), unit, name, "rename one")?;
        Some(Finding { path: EXCEPTIONS.to_owned(), line: 0, what })
    };
    crates_of_names(tree).into_iter().filter_map(finding).collect()
}

/// Checks that an exception states the present number of a name that is still too common.
pub(super) fn exceptions(tree: &Tree) -> Vec<Finding> {
    let all = crates_of_names(tree);
    let finding = |(name, size): (String, toml::Value)| {
        let what = match all.get(name.as_str()) {
            None => format!("`{name}` is gone: remove its exception"),
            Some(&present) if present <= NAME_MAX => {
                format!("`{name}` is rare enough: remove its exception")
            }
            Some(&present) if (present as i64) < size.as_integer().unwrap_or(0) => {
                format!("`{name}` has shrunk to {present}: lower its exception")
            }
            Some(_) => return None,
        };
        Some(Finding { path: EXCEPTIONS.to_owned(), line: 0, what })
    };
    exceptions_of_names(tree).into_iter().filter_map(finding).collect()
}
