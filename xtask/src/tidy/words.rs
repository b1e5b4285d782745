//! Words that are forbidden in the tree, or outside their place.

use super::code::words;
use super::{Finding, Tree};

/// Crates that may say `unsafe`.
const UNSAFE_USERS: &[&str] = &["base/sys/", "runtime/memory/"];
/// Macros that mark unfinished code. The names are split, because this file is checked too.
const UNFINISHED: &[&str] = &["todo", "unimplemented"];
/// The marker of a known fault that cannot land.
const FAULT: &str = concat!("FIX", "ME");
/// Beginnings of paths that exist on one machine only.
const PRIVATE: &[&str] = &["home", "root", "work", "farm", "Users"];

/// `unsafe` is in `sys` and `memory`; elsewhere only as `unsafe impl Share` (and its trait), for
/// the proof that a worker is dead, and where a descriptor is registered with a reactor.
pub(super) fn no_unsafe(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let checked = |path: &str| !UNSAFE_USERS.iter().any(|folder| path.starts_with(folder));
    for file in tree.files.iter().filter(|file| file.is_rust() && checked(&file.path)) {
        for at in words(&file.code, "unsafe") {
            let rest = file.code[at + "unsafe".len()..].trim_start();
            let head = rest.split('{').next().unwrap_or_default();
            let is_share = head.starts_with("impl") && words(head, "Share").next().is_some();
            let is_trait = head.starts_with("trait Share") || head.starts_with("pub trait Share");
            let is_proof = head.contains("-> Dead") || rest.starts_with("{ Dead::sworn(");
            let is_reactor = rest.starts_with("{ AsyncFd::register");
            if !is_share && !is_trait && !is_proof && !is_reactor {
                let what = format!("`unsafe` belongs into {UNSAFE_USERS:?}, or to `impl Share`");
                let line = file.code[..at].matches('\n').count() + 1;
                found.push(Finding::new(&file.path, line, what));
            }
        }
    }
    found
}

/// Checks that no unfinished code lands, and that dead code is removed instead of excused.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    tree.judge(|_, line, code| {
        let fault = line.contains(FAULT).then(|| format!("{FAULT} cannot land: repair it"));
        let is_called = |name: &&&str| words(code, name).any(|at| code[at..].contains('!'));
        let unwritten = UNFINISHED.iter().filter(is_called);
        let dead = words(code, "dead_code").map(|_| "dead code is removed, not excused".to_owned());
        let unwritten = unwritten.map(|name| format!("`{name}!` cannot land: write it"));
        fault.into_iter().chain(unwritten).chain(dead).collect::<Vec<_>>()
    })
}

/// A test runs, or says what the machine lacks (`tests/skips.toml`); none is ignored.
pub(super) fn ignored(tree: &Tree) -> Vec<Finding> {
    let what = "expected a test that runs: skip what the machine lacks, by `testkit`";
    tree.judge(|file, _, code| {
        (file.is_rust() && code.contains("#[ignore")).then(|| what.to_owned())
    })
}

/// A file that a crate includes lies in its folder: cargo packages no other.
pub(super) fn packaged(tree: &Tree) -> Vec<Finding> {
    tree.judge(|file, line, _| {
        // Tests are not built from a package, and `testkit` and `xtask` are not published.
        let is_published = !["tests/", "xtask/"].iter().any(|it| file.path.starts_with(it));
        let (_, below) = file.path.split_once("/src/").filter(|_| is_published)?;
        let (_, path) = line.split_once("include_")?.1.split_once("!(\"")?;
        let climbs = path.split('"').next()?.matches("../").count();
        (climbs > below.matches('/').count() + 1)
            .then(|| "expected a path inside the crate: link the file there".to_owned())
    })
}

/// No path that exists on one developer's machine only.
pub(super) fn private_paths(tree: &Tree) -> Vec<Finding> {
    tree.judge(|_, line, _| {
        let paths = PRIVATE.iter().map(|name| format!("/{name}/")).filter(|path| {
            // After a word, a point or a bracket it is the middle of a longer path or a link.
            line.match_indices(path.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back().unwrap_or(' ');
                !before.is_alphanumeric() && !"._-/}])~".contains(before)
            })
        });
        paths
            .map(|path| format!("`{path}…` exists on one machine only: take it as an argument"))
            .collect::<Vec<_>>()
    })
}
