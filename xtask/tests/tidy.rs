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

/// The light step of CI compiles the refusals, and lets none of them be dead code.
#[test]
fn a_light_service_refuses_by_name_what_it_lacks() {
    let tree = Tree::load(&xtask::root()).unwrap();
    let manifest = tree.toml("runtime/roundhouse/Cargo.toml");
    let features = manifest["features"]["default"].as_array().expect("a list").iter();
    // Without `sim` there is only no such module.
    let wanted = features.filter_map(|it| it.as_str()).filter(|name| *name != "sim");
    let sources = tree.files.iter().filter(|file| file.path.starts_with("runtime/"));
    let said = sources.flat_map(|file| file.text.split("add the feature `").skip(1));
    let said: BTreeSet<_> = said.filter_map(|rest| rest.split('`').next()).collect();
    assert_eq!(said, wanted.collect());
}
