//! Size limits: a function fits on one screen, and a file can be read in one sitting.
//!
//! Exceptions are in `xtask/tidy.toml` with their present size. An entry larger than the actual
//! size is a finding too, so the list can only shrink.

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

/// An item with a size: its key in the exceptions, its place, its lines, its limit.
struct Sized {
    key: String,
    path: String,
    line: usize,
    lines: usize,
    lines_max: usize,
}

fn sized_files(tree: &Tree) -> Vec<Sized> {
    let size = |file: &File| {
        let (_, lines_max) = FILE_MAX.iter().find(|(folder, _)| file.path.starts_with(folder))?;
        let (key, path, lines) = (file.path.clone(), file.path.clone(), file.text.lines().count());
        Some(Sized { key, path, line: 0, lines, lines_max: *lines_max })
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
                lines: function.last - function.first + 1,
                lines_max: FUNCTION_MAX,
            });
        }
    }
    found
}

/// The size that `xtask/tidy.toml` excuses for `key` in the table `table`.
fn excused(tree: &Tree, table: &str, key: &str) -> Option<usize> {
    let exceptions = tree.toml(EXCEPTIONS);
    let lines = exceptions.get(table)?.as_table()?.get(key)?.as_integer()?;
    usize::try_from(lines).ok()
}

fn too_long(tree: &Tree, table: &str, all: Vec<Sized>) -> Vec<Finding> {
    let over = all.into_iter().filter(|sized| sized.lines > sized.lines_max);
    over.filter(|sized| excused(tree, table, &sized.key).is_none_or(|lines| sized.lines > lines))
        .map(|sized| Finding {
            what: format!(
                "expected at most {} lines, found {}: split `{}`",
                sized.lines_max, sized.lines, sized.key
            ),
            path: sized.path,
            line: sized.line,
        })
        .collect()
}

/// Files are at most 600 lines, those of engines 300, bare loops 200.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    too_long(tree, "files", sized_files(tree))
}

/// Functions are at most 70 lines.
pub(super) fn functions_short(tree: &Tree) -> Vec<Finding> {
    too_long(tree, "functions", sized_functions(tree))
}

/// Checks that an exception states the present size of an item that is still too long.
pub(super) fn exceptions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (table, all) in [("files", sized_files(tree)), ("functions", sized_functions(tree))] {
        let exceptions = tree.toml(EXCEPTIONS);
        let Some(entries) = exceptions.get(table).and_then(|value| value.as_table()) else {
            continue;
        };
        for (key, lines) in entries {
            let present = all.iter().find(|sized| sized.key == *key);
            let lines = lines.as_integer().unwrap_or(0);
            let what = match present {
                None => format!("`{key}` is gone: remove its exception"),
                Some(sized) if sized.lines <= sized.lines_max => {
                    format!("`{key}` is short enough: remove its exception")
                }
                Some(sized) if (sized.lines as i64) < lines => {
                    format!("`{key}` has shrunk to {}: lower its exception", sized.lines)
                }
                Some(_) => continue,
            };
            found.push(Finding { path: EXCEPTIONS.to_owned(), line: 0, what });
        }
    }
    found
}
