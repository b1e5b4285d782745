//! The tree keeps its own rules.

use std::collections::BTreeSet;

use xtask::steps;
use xtask::tidy::{Tree, check};

#[test]
fn the_tree_is_tidy() {
    let found = check(&Tree::load(&xtask::root()).unwrap());
    let lines: Vec<String> =
        found.iter().map(|(name, place)| format!("{place} [{name}]")).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

#[test]
fn the_checks_look_at_something() {
    let tree = Tree::load(&xtask::root()).unwrap();
    assert!(tree.packages.iter().any(|package| package.name == "seam"), "packages");
    for path in ["Cargo.toml", "deny.toml", ".ci/run", "bare/epoll.c", "xtask/src/main.rs"] {
        assert!(tree.file(path).is_some(), "{path} is not looked at");
    }
}

/// The packages that a service with the library and none of its features builds.
const LIGHT_MAX: usize = 80;

#[test]
fn a_light_service_builds_few_crates() {
    let what = ["tree", "--locked", "--package", "roundhouse-runtime", "--no-default-features"];
    let how = ["--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let tree = steps::cargo(what).args(how).output().expect("cargo");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).expect("names");
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let all: BTreeSet<String> = text.lines().map(name).collect();
    assert!((20..=LIGHT_MAX).contains(&all.len()), "{} packages: {all:?}", all.len());
}
