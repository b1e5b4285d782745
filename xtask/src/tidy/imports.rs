//! The permitted imports of each crate, and the forbidden names in the sans-I/O crates.
//!
//! The table is the architecture: an engine cannot know a protocol, because it cannot import one.
//!
//! ARCHITECTURE.md has the table, and `cargo xtask tidy` compares the workspace as cargo reports
//! it: members with their dependencies, normal and for tests ([`TESTS`]). A crate without a row is
//! a finding, so a new crate needs a decision. `FLOORS` holds the wall between `lab` and `runtime`,
//! for tests too, and `CROSSING` the exceptions.

use super::{Finding, Package, Tree};

/// The floors of the tree: the folder, and the floors whose rooms its own may import. The wall
/// stands between `lab` on one side, `runtime` and `services` on the other: the lab sees processes,
/// sockets, `/proc` and JSON lines, so that a foreign server is an arm like ours.
const FLOORS: &[(&str, &str)] = &[
    ("base", "base"),
    ("runtime", "base runtime services"),
    ("services", "base runtime services"),
    ("lab", "base lab"),
    ("museum", "base runtime services lab museum"),
    ("cli", "base runtime services lab museum cli"),
    ("tests", "base runtime services lab museum cli tests"),
    ("xtask", "base"),
];

/// Imports that cross a floor's bounds today, as `(member, imported)`. This list only shrinks.
const CROSSING: &[(&str, &str)] = &[("grade", "tools")];

/// The page with the table, and the marks around it: an item `NAMES: IMPORTS` for all crates that
/// import the same.
const PAGE: &str = include_str!("../../../ARCHITECTURE.md");
const MARKS: [&str; 2] = ["<!-- imports -->\n- ", "<!-- /imports -->"];

/// The members that only the tests of a member may import.
const TESTS: &[(&str, &str)] = &[
    ("layers", "echo memory sim stats"),
    ("engines", "sim testkit"),
    ("pacing", "stats testkit"),
    ("server", "testkit"),
    ("roundhouse", "testkit"),
    ("ledger", "stats"),
    ("cluster", "stats testkit wire"),
    ("stock", "sim"),
    ("market", "testkit"),
    ("web", "sim stats"),
    ("echo", "memory sim stats"),
    ("game", "memory sim stats"),
    ("media", "sim"),
    ("load", "testkit"),
    ("peers", "testkit"),
    ("checkup", "testkit"),
    ("tune", "language"),
    ("grade", "testkit"),
    ("tools", "testkit"),
];

/// Crates that bring an async runtime with them.
const RUNTIMES: &str = "tokio async-std smol async-executor monoio glommio compio tokio-uring \
                        actix-rt ntex may embassy-executor";
/// The members that may use one: foreign servers are async.
const RUNTIME_USERS: &[&str] = &["engines", "peers"];

/// Crates where bytes and `now` go in, and bytes and a deadline come out.
const SANS_IO: &[&str] = &[
    "clock", "seam", "wire", "layers", "stock", "web", "echo", "game", "media", "index", "grid",
    "sim",
];
/// The attribute at the top of each of them; the two lists are in `clippy.toml`.
const BAN: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";

/// The members that a member may import; `None` without a row.
fn allowed(name: &str) -> Option<Vec<&'static str>> {
    let (_, rest) = PAGE.split_once(MARKS[0])?;
    let (list, _) = rest.split_once(MARKS[1])?;
    let mut rows = list.split("\n- ").filter_map(|row| row.split_once(':'));
    let (_, imports) = rows.find(|(names, _)| names.split(", ").any(|it| it == name))?;
    Some(imports.split(',').map(str::trim).collect())
}

/// Checks that members import only permitted members.
pub(super) fn imports(tree: &Tree) -> Vec<Finding> {
    of_packages(tree, |package| {
        let Some(allowed) = allowed(&package.name) else {
            return vec![format!("expected a row for `{}` in ARCHITECTURE.md", package.name)];
        };
        let fits = |name: &str| allowed.iter().any(|it| [name, "all"].contains(it));
        let tests = TESTS.iter().find(|(name, _)| *name == package.name).map_or("", |it| it.1);
        let fits_tests = |name: &str| tests.split(' ').any(|it| it == name);
        let imports = package.depends.iter().filter(|it| it.ours);
        let wrong = imports.filter(|it| !(fits(&it.name) || it.dev && fits_tests(&it.name)));
        let what = wrong.map(|it| {
            format!("`{}` may not import `{}`: it may import {allowed:?}", package.name, it.name)
        });
        what.collect()
    })
}

/// Checks that no room imports from a floor that its own may not. Tests of any may use `testkit`.
pub(super) fn floors(tree: &Tree) -> Vec<Finding> {
    let floor = |dir: &str| dir.split('/').next().unwrap_or_default().to_owned();
    of_packages(tree, |package| {
        let own = floor(&package.dir);
        let Some((_, below)) = FLOORS.iter().find(|(name, _)| *name == own) else {
            return vec![format!(
                "expected `{}` on one of the floors of xtask's table",
                package.dir
            )];
        };
        let is_kit = |name: &str| name == "testkit";
        let depends = package.depends.iter().filter(|it| it.ours && !(it.dev && is_kit(&it.name)));
        let others = depends.filter_map(|it| tree.packages.iter().find(|to| to.name == it.name));
        let wrong = others.filter(|other| {
            let pair = (package.name.as_str(), other.name.as_str());
            !below.split(' ').any(|it| it == floor(&other.dir)) && !CROSSING.contains(&pair)
        });
        let what = wrong.map(|other| {
            let (name, there) = (&package.name, &other.dir);
            format!("`{own}/` stands on {below:?}, so `{name}` may not import `{there}`")
        });
        what.collect()
    })
}

/// Checks that only the two members whose peers need an async runtime have one.
pub(super) fn runtimes(tree: &Tree) -> Vec<Finding> {
    of_packages(tree, |package| {
        let may = RUNTIME_USERS.contains(&package.name.as_str());
        let names = package.depends.iter().map(|depends| depends.name.as_str());
        let wrong = names.filter(|name| !may && RUNTIMES.split(' ').any(|it| it == *name));
        wrong
            .map(|name| {
                format!("`{name}` is an async runtime; only {RUNTIME_USERS:?} may have one")
            })
            .collect()
    })
}

/// What `judge` says of each package.
pub(super) fn of_packages(tree: &Tree, judge: impl Fn(&Package) -> Vec<String>) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in &tree.packages {
        let path = format!("{}/Cargo.toml", package.dir);
        found.extend(judge(package).into_iter().map(|what| Finding::new(&path, 0, what)));
    }
    found
}

/// The sans-I/O crates deny sockets, files, threads and clocks at their own top.
pub(super) fn sans_io(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in tree.packages.iter().filter(|it| SANS_IO.contains(&it.name.as_str())) {
        let path = format!("{}/src/lib.rs", package.dir);
        // The blanked code keeps attributes, and a comment cannot pass for one.
        let says = tree.file(&path).is_some_and(|file| file.code.lines().any(|line| line == BAN));
        if !says {
            found.push(Finding::new(&path, 1, format!("expected `{BAN}` at the top")));
        }
    }
    found
}
