//! The permitted imports of each crate, and the forbidden names in the sans-I/O crates.
//!
//! The table is the architecture: an engine cannot know a protocol, because it cannot import one.
//!
//! `cargo xtask tidy` calls the checks with the workspace as cargo reports it: members with their
//! dependencies, normal and for tests. A crate without a row is a finding, so a new crate needs a
//! decision. `FLOORS` holds the wall between `lab` and `runtime`, `CROSSING` the exceptions, and
//! `table` prints the list that ARCHITECTURE.md must show word for word.

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

/// A member, the members of ours that it may import, and those that only its tests may import. `*`
/// stands for every member.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("language", "", ""),
    ("stats", "", ""),
    ("clock", "", ""),
    ("sys", "", ""),
    ("wire", "stats", ""),
    ("seam", "clock", ""),
    ("memory", "seam sys stats", ""),
    ("layers", "seam wire", "echo memory sim stats"),
    ("engines", "language seam sys memory stats wire", "sim testkit"),
    ("pacing", "engines memory seam sys", "stats testkit"),
    ("sim", "seam stats", ""),
    ("server", "engines language layers memory seam sys wire", "testkit"),
    ("roundhouse", "engines layers memory seam server sim sys wire", "testkit"),
    ("grid", "stats", ""),
    ("index", "stats", ""),
    ("ledger", "wire", "stats"),
    ("cluster", "ledger", "stats testkit wire"),
    ("stock", "seam wire memory index ledger stats", "sim"),
    (
        "market",
        "cluster engines language ledger memory seam server stats stock sys wire",
        "testkit",
    ),
    ("web", "seam wire memory layers", "sim stats"),
    ("echo", "seam", "memory sim stats"),
    ("game", "seam wire grid echo", "memory sim stats"),
    ("media", "seam wire memory stats web", "sim"),
    ("meter", "sys", ""),
    ("load", "clock language wire sys meter stats", "testkit"),
    ("lab", "language meter stats sys", ""),
    ("peers", "lab", "testkit"),
    ("document", "", ""),
    ("pages", "document lab language meter stats", ""),
    ("checkup", "document lab language load meter stats sys wire", "testkit"),
    ("tune", "document lab stats sys", "language"),
    ("grade", "checkup lab language meter stats sys tools wire", "testkit"),
    ("museum", "document lab language meter peers memory index grid stats wire", ""),
    (
        "tools",
        "seam wire sys memory stock web game media engines server roundhouse pacing grid load lab \
         pages language meter stats",
        "testkit",
    ),
    ("cli", "*", ""),
    ("fuzz", "*", ""),
    ("testkit", "engines seam sys", ""),
    ("xtask", "", ""),
];

/// The page that shows the table, and the marks around it.
const PAGE: &str = "ARCHITECTURE.md";
const MARKS: [&str; 2] = ["<!-- imports -->\n", "<!-- /imports -->"];

/// Crates that bring an async runtime with them.
const RUNTIMES: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "async-executor",
    "monoio",
    "glommio",
    "compio",
    "tokio-uring",
    "actix-rt",
    "ntex",
    "may",
    "embassy-executor",
];
/// The members that may use one: foreign servers are async.
const RUNTIME_USERS: &[&str] = &["engines", "peers"];

/// Crates where bytes and `now` go in, and bytes and a deadline come out.
const SANS_IO: &[&str] = &[
    "clock", "seam", "wire", "layers", "stock", "web", "echo", "game", "media", "index", "grid",
    "sim",
];
/// The attribute at the top of each of them; the two lists are in `clippy.toml`.
const BAN: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";

/// The table as a list of Markdown: one line for all crates that import the same.
pub fn table() -> String {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, may, _) in ALLOWED {
        let what = match *may {
            "" => "nothing of ours".to_owned(),
            "*" => "all".to_owned(),
            may => may.replace(' ', ", "),
        };
        match rows.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => names.push(name),
            None => rows.push((what, vec![name])),
        }
    }
    rows.iter().map(|(what, names)| wrapped(&format!("{}: {what}", names.join(", ")))).collect()
}

/// An item of a list of Markdown, folded to the columns that a line may have.
fn wrapped(text: &str) -> String {
    let (mut item, mut column) = ("-".to_owned(), 1);
    for word in text.split(' ') {
        if column + 1 + word.len() > 98 {
            (item, column) = (item + "\n ", 1);
        }
        column += 1 + word.len();
        item = format!("{item} {word}");
    }
    item + "\n"
}

/// Checks that `ARCHITECTURE.md` shows the current table.
pub(super) fn shown(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let [open, close] = MARKS;
    let shown = page.text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
    if shown.is_some_and(|(shown, _)| shown == table()) {
        return Vec::new();
    }
    let what =
        "expected the import table between its marks: paste the output of `cargo xtask imports`";
    vec![Finding::new(PAGE, 0, what.to_owned())]
}

/// Checks that members import only permitted members.
pub(super) fn imports(tree: &Tree) -> Vec<Finding> {
    of_packages(tree, |package| {
        let Some((_, normal, dev)) = ALLOWED.iter().find(|(name, ..)| *name == package.name) else {
            return vec![format!("expected a row for `{}` in xtask's import table", package.name)];
        };
        let fits = |name: &str, allowed: &str| allowed.split(' ').any(|it| it == name || it == "*");
        let wrong = package.depends.iter().filter(|depends| {
            let name = depends.name.as_str();
            depends.ours && !fits(name, normal) && !(depends.dev && fits(name, dev))
        });
        let what = wrong.map(|depends| {
            let (own, name) = (&package.name, &depends.name);
            let kind = if depends.dev { "test with" } else { "import" };
            format!(
                "`{own}` may not {kind} `{name}`: it may import {normal:?} and test with {dev:?}"
            )
        });
        what.collect()
    })
}

/// Checks that no room imports from a floor that its own may not, tests aside.
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
        let depends = package.depends.iter().filter(|it| it.ours && !it.dev);
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
        let wrong = names.filter(|name| !may && RUNTIMES.contains(name));
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
