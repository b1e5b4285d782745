//! Size limits: a function fits on one screen, a file can be read in one sitting, and a type's name
//! can be searched for.
//!
//! Exceptions are in `xtask/tidy.toml` with their present size. An entry larger than the actual
//! size is a finding too, so the list can only shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::code::functions;
use super::{File, Finding, Tree};

/// Columns of a line of source.
const COLUMNS_MAX: usize = 100;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_MAX: usize = 70;
/// Folders with their limit of lines a file; the first match counts. An architecture is read in one
/// sitting; `parts` keeps the engines' own files that short.
const FILE_MAX: &[(&str, usize)] =
    &[("bare/", 200), ("crates/engines/src/parts/", 600), ("crates/engines/src/", 300), ("", 600)];
/// Crates that may define a public type of one name.
const NAME_MAX: usize = 2;
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

/// An item with a size: its key in the exceptions, its place, its size, its limit, and the remedy.
struct Sized {
    key: String,
    path: String,
    line: usize,
    size: usize,
    size_max: usize,
    unit: &'static str,
    remedy: &'static str,
}

fn sized_files(tree: &Tree) -> Vec<Sized> {
    let size = |file: &File| {
        let (_, size_max) = FILE_MAX.iter().find(|(folder, _)| file.path.starts_with(folder))?;
        let (key, path, size) = (file.path.clone(), file.path.clone(), file.text.lines().count());
        let (size_max, unit, remedy) = (*size_max, "lines", "split");
        Some(Sized { key, path, line: 0, size, size_max, unit, remedy })
    };
    tree.files.iter().filter(|file| file.is_source()).filter_map(size).collect()
}

fn sized_functions(tree: &Tree) -> Vec<Sized> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for function in functions(&file.code) {
            found.push(Sized {
                key: format!("{}::{}", file.path, function.name),
                path: file.path.clone(),
                line: function.first,
                size: function.last - function.first + 1,
                size_max: FUNCTION_MAX,
                unit: "lines",
                remedy: "split",
            });
        }
    }
    found
}

/// The names of public types, with the number of crates that define one.
fn sized_names(tree: &Tree) -> Vec<Sized> {
    let mut crates_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let Some((of, _)) = file.path.strip_prefix("crates/").and_then(|it| it.split_once("/src/"))
        else {
            continue;
        };
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
    let sized = |(name, crates): (&str, BTreeSet<&str>)| Sized {
        key: name.to_owned(),
        path: "crates".to_owned(),
        line: 0,
        size: crates.len(),
        size_max: NAME_MAX,
        unit: "crates with a public type of one name",
        remedy: "rename one",
    };
    crates_of.into_iter().map(sized).collect()
}

/// The size that `xtask/tidy.toml` excuses for `key` in the table `table`.
fn excused(tree: &Tree, table: &str, key: &str) -> Option<usize> {
    let exceptions = tree.toml(EXCEPTIONS);
    let size = exceptions.get(table)?.as_table()?.get(key)?.as_integer()?;
    usize::try_from(size).ok()
}

fn too_large(tree: &Tree, table: &str, all: Vec<Sized>) -> Vec<Finding> {
    let over = all.into_iter().filter(|sized| sized.size > sized.size_max);
    over.filter(|sized| excused(tree, table, &sized.key).is_none_or(|size| sized.size > size))
        .map(|sized| Finding {
            what: format!(
                "expected at most {} {}, found {}: {} `{}`",
                sized.size_max, sized.unit, sized.size, sized.remedy, sized.key
            ),
            path: sized.path,
            line: sized.line,
        })
        .collect()
}

/// Files are at most 600 lines, those of engines 300, bare loops 200.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    too_large(tree, "files", sized_files(tree))
}

/// Functions are at most 70 lines.
pub(super) fn functions_short(tree: &Tree) -> Vec<Finding> {
    too_large(tree, "functions", sized_functions(tree))
}

/// A public type's name is defined in at most two crates, so that it can be searched for.
pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    too_large(tree, "names", sized_names(tree))
}

/// Checks that an exception states the present size of an item that is still too large.
pub(super) fn exceptions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (table, all) in [
        ("files", sized_files(tree)),
        ("functions", sized_functions(tree)),
        ("names", sized_names(tree)),
    ] {
        let exceptions = tree.toml(EXCEPTIONS);
        let Some(entries) = exceptions.get(table).and_then(|value| value.as_table()) else {
            continue;
        };
        for (key, size) in entries {
            let present = all.iter().find(|sized| sized.key == *key);
            let size = size.as_integer().unwrap_or(0);
            let what = match present {
                None => format!("`{key}` is gone: remove its exception"),
                Some(sized) if sized.size <= sized.size_max => {
                    format!("`{key}` is small enough: remove its exception")
                }
                Some(sized) if (sized.size as i64) < size => {
                    format!("`{key}` has shrunk to {}: lower its exception", sized.size)
                }
                Some(_) => continue,
            };
            found.push(Finding { path: EXCEPTIONS.to_owned(), line: 0, what });
        }
    }
    found
}
