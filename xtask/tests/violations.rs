//! Each rule of the tree reports a violation, and ignores similar code that is legal.
//!
//! A checker without findings proves nothing until it has found a violation.

use xtask::tidy::{CHECKS, Dependency, File, Package, Tree};

const RS: &str = "lab/lab/src/a.rs";
const TIDY: &str = "xtask/tidy.toml";
const MANIFEST: &str = "[workspace.dependencies]\nlibc = \"0.2\"\nsys = { path = \"base/sys\" }\n";
const ARGUED: &str = "# dep libc: the kernel's own interface, as the C library states it\n";
const BAN: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]\n";

/// A check, and whether it must object to the tree.
type Example = (&'static str, bool, Tree);

/// A tree of packages: `a>b` imports `b`, `a>>b` tests with it, `a+b` takes it from outside. A name
/// may have its folder in front.
fn packages(names: &[&str]) -> Tree {
    let mut tree = Tree::default();
    for text in names {
        let (place, rest) = text.split_at(text.find(['>', '+']).unwrap_or(text.len()));
        let (folder, name) = place.rsplit_once('/').unwrap_or(("base", place));
        let (dev, ours) = (rest.starts_with(">>"), rest.starts_with('>'));
        let depends = Dependency { name: rest.trim_start_matches(['>', '+']).into(), dev, ours };
        let depends = if rest.is_empty() { Vec::new() } else { vec![depends] };
        tree.packages.push(Package { name: name.into(), dir: format!("{folder}/{name}"), depends });
    }
    tree
}

fn files(files: &[(&str, &str)]) -> Tree {
    let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    let files = files.iter().map(|(path, text)| File::new(path, text)).collect();
    Tree { files, paths, ..Tree::default() }
}

fn file(path: &str, text: &str) -> Tree {
    files(&[(path, text)])
}

fn both(packages_of: &[&str], files_of: &[(&str, &str)]) -> Tree {
    Tree { files: files(files_of).files, ..packages(packages_of) }
}

fn of_packages() -> Vec<Example> {
    let wire = |text: &str| both(&["wire"], &[("base/wire/src/lib.rs", text)]);
    vec![
        ("imports", true, packages(&["stock>sys"])),
        ("imports", true, packages(&["engines>web"])),
        ("imports", true, packages(&["load>>engines"])),
        ("imports", true, packages(&["stranger"])),
        ("imports", false, packages(&["stock>seam", "engines>>sim", "cli>lab"])),
        ("floors", true, packages(&["lab/load>engines", "runtime/engines"])),
        ("floors", true, packages(&["lab/load>>engines", "runtime/engines"])),
        ("floors", false, packages(&["lab/load>>testkit", "tests/testkit"])),
        ("floors", true, packages(&["services/stock>load", "lab/load"])),
        ("floors", true, packages(&["base/sys>seam", "runtime/seam"])),
        ("floors", true, packages(&["attic/old"])),
        ("floors", false, packages(&["services/stock>seam", "runtime/seam"])),
        ("floors", false, packages(&["cli/tools>load", "lab/load"])),
        ("runtimes", true, packages(&["seam+tokio"])),
        ("runtimes", false, packages(&["peers+tokio", "engines+tokio", "engines+libc"])),
        ("sans-io", true, wire("//! Doc.\n")),
        ("sans-io", true, wire(&format!("// {BAN}"))),
        ("sans-io", false, wire(BAN)),
        ("sans-io", false, both(&["engines"], &[("runtime/engines/src/lib.rs", "")])),
    ]
}

/// A tree of engines with two files next to the root.
fn engines(root: &str, a: &str, b: &str) -> Tree {
    let path = |name: &str| format!("runtime/engines/src/{name}.rs");
    let [lib, first, second] = ["lib", "a", "a/b"].map(path);
    let files = files(&[(&lib, root), (&first, a), (&second, b)]).files;
    Tree { files, ..packages(&["runtime/engines"]) }
}

fn of_engines() -> Vec<Example> {
    let test = "#[cfg(test)]\nmod tests { use crate::a::b::B; }\n";
    vec![
        ("cycles", true, engines("", "use self::b::B;\n", "use super::A;\n")),
        ("cycles", true, engines("", "fn f() { b::f() }\n", "use crate::{a::{A, C}, d};\n")),
        ("cycles", true, engines("pub use a::A;\n", "use self::b::B;\n", "use crate::A;\n")),
        ("cycles", false, engines("pub use a::A;\n", "mod b;\n", "use super::A;\n")),
        ("cycles", false, engines("", test, "use crate::a::A;\n")),
        ("cycles", false, engines("", "use self::b::B;\n", "pub(in crate::a) struct B;\n")),
        ("cycles", false, engines("use a::A;\n", "pub(crate) struct A;\n", "pub(super) fn f()")),
        ("cycles", false, engines("", "use sys::{b::B};\n", "use super::A; // crate::a::b\n")),
    ]
}

fn of_dependencies() -> Vec<Example> {
    let argue = |deny: &str| files(&[("Cargo.toml", MANIFEST), ("deny.toml", deny)]);
    let gone = format!("{ARGUED}# dep left-pad: it was there and then it was gone\n");
    vec![
        ("argued", true, argue("")),
        ("argued", true, argue(&gone)),
        ("argued", true, argue("# dep libc: yes\n")),
        ("argued", false, argue(ARGUED)),
        ("used", true, both(&["lab"], &[("Cargo.toml", MANIFEST)])),
        ("used", false, both(&["lab+libc"], &[("Cargo.toml", MANIFEST)])),
        ("inherited", true, both(&["lab+left-pad"], &[("Cargo.toml", MANIFEST)])),
        ("inherited", false, both(&["lab+libc"], &[("Cargo.toml", MANIFEST)])),
    ]
}

fn of_sizes() -> Vec<Example> {
    let lines = |count: usize| "\n".repeat(count);
    let excused = |size: usize, crates: &[&str]| {
        let paths: Vec<String> = crates.iter().map(|it| format!("base/{it}/src/a.rs")).collect();
        let mut all: Vec<_> = paths.iter().map(|it| (it.as_str(), "pub struct Told;\n")).collect();
        let list = format!("[names]\nTold = {size}\n");
        all.extend((size > 0).then_some((TIDY, list.as_str())));
        files(&all)
    };
    vec![
        ("names", true, excused(3, &[])),
        ("names", true, excused(3, &["a", "b"])),
        ("names", true, excused(4, &["a", "b", "c"])),
        ("names", true, excused(0, &["a", "b", "c"])),
        ("names", true, excused(3, &["a", "b", "c", "d"])),
        ("names", false, excused(3, &["a", "b", "c"])),
        ("names", false, excused(0, &["a", "b"])),
        ("columns", true, file(RS, &"x".repeat(101))),
        ("columns", true, file("bare/a.c", &"x".repeat(101))),
        ("columns", false, file(RS, &"é".repeat(100))),
        ("files", true, file(RS, &lines(601))),
        ("files", true, file("runtime/engines/src/wait/epoll.rs", &lines(301))),
        ("files", true, file("bare/a.c", &lines(201))),
        ("files", false, file(RS, &lines(600))),
    ]
}

fn of_words() -> Vec<Example> {
    let share = "// unsafe\nunsafe impl<T: Sync> Share for X<T> {}\n";
    let block = "fn f() { unsafe { g() } }\n";
    let slow = "#[test]\n#[ignore]\nfn slow() {}\n";
    vec![
        ("unsafe", true, file(RS, block)),
        ("unsafe", true, file(RS, "unsafe impl Send for X {}\n")),
        ("unsafe", false, file(RS, share)),
        ("unsafe", false, file("base/sys/src/a.rs", block)),
        ("unfinished", true, file(RS, "fn f() { todo!(\"x\") }\n")),
        ("unfinished", true, file(RS, "fn f() { unimplemented!() }\n")),
        ("unfinished", true, file(RS, "#[allow(dead_code)]\nfn f() {}\n")),
        ("unfinished", true, file("docs/a.md", concat!("FIX", "ME later\n"))),
        ("unfinished", false, file(RS, "// A todo! in prose.\nfn todo() {}\n")),
        ("ignored", true, file(RS, slow)),
        ("ignored", false, file(RS, "#[test]\nfn slow() {}\n// #[ignore]\n")),
        ("packaged", true, file(RS, "const A: &str = include_str!(\"../../../data/a\");\n")),
        ("packaged", false, file(RS, "const A: &str = include_str!(\"../data/a\");\n")),
        ("private-paths", true, file(RS, concat!("// see /wo", "rk/notes\n"))),
        ("private-paths", false, file(RS, "// https://host/work/a ./work/b /proc/c\n")),
    ]
}

fn of_language() -> Vec<Example> {
    vec![
        ("retired", true, file(RS, concat!("// each ten", "ant\n"))),
        ("retired", true, file(RS, concat!("struct Cas", "terSlot;\n"))),
        ("retired", true, file("docs/a.md", concat!("read ane", "w\n"))),
        ("retired", false, file(RS, "// the roundhouse, shallow, a broadcaster\n")),
        ("sentences", true, file(RS, "/// Who waits is served.\n")),
        ("sentences", true, file(RS, "// It is full. What comes is refused.\n")),
        ("sentences", true, file("docs/a.md", concat!("It opens so ", "many files.\n"))),
        ("sentences", false, file(RS, "// Who is served first? Whoever came first.\n")),
        ("sentences", false, file(RS, "// The client says what it wants.\nlet who = 1;\n")),
    ]
}

fn of_links() -> Vec<Example> {
    let page =
        |text: &str| files(&[("docs/a.md", text), ("b.md", "## What *is* `b`?\n"), ("c", "")]);
    let sound =
        "[b](../b.md#what-is-b) [c](../c) [x](https://x/y) `[no](no.md)`\n```\n[no](no)\n```\n";
    vec![
        ("links", false, page(sound)),
        ("links", true, page("[b](../b.md#gone)\n")),
        ("links", true, page("and <img src=\"c.svg\">\n")),
    ]
}

fn examples() -> impl Iterator<Item = Example> {
    let trees =
        of_packages().into_iter().chain(of_engines()).chain(of_dependencies()).chain(of_sizes());
    trees.chain(of_words()).chain(of_language()).chain(of_links())
}

#[test]
fn each_check_objects_to_its_violation_and_to_nothing_else() {
    for (name, objects, tree) in examples() {
        let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).expect("a known check");
        let found = check(&tree);
        assert_eq!(!found.is_empty(), objects, "{name} found {found:?} in {tree:?}");
    }
}

#[test]
fn each_check_has_an_example_of_both_kinds() {
    for (name, _) in CHECKS {
        for objects in [true, false] {
            let has = examples().any(|(check, found, _)| check == *name && found == objects);
            assert!(has, "{name} has no example with objects = {objects}");
        }
    }
}

#[test]
fn a_finding_names_its_place() {
    let (_, check) = CHECKS.iter().find(|(name, _)| *name == "unsafe").unwrap();
    let found = check(&file(RS, "//! Doc.\n\nfn f() { unsafe {} }\n"));
    assert!(found[0].to_string().starts_with(&format!("{RS}:3: ")), "{}", found[0]);
}
