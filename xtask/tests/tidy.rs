//! The tree keeps its own rules.

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
