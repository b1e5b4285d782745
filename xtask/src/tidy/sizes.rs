//! Size limits: a line fits into a window, and a file can be read in one sitting. clippy holds the
//! length of a function.

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
