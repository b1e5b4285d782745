//! Each external dependency is stated once and justified once.
//!
//! The justifications are comment lines of `deny.toml`, `# dep NAME: why`, next to the rules of
//! cargo-deny: cargo-deny itself has no field for the reason of a wanted crate.

use super::imports::of_packages;
use super::{Finding, Tree};

/// The beginning of a line with an argument.
const ARGUMENT: &str = "# dep ";
/// A justification has at least this length.
const ARGUMENT_MIN: usize = 20;
/// The file of the justifications.
const DENY: &str = "deny.toml";
/// The file of the dependencies.
const MANIFEST: &str = "Cargo.toml";

/// The external names of `[workspace.dependencies]`: those without a path.
fn external(tree: &Tree) -> Vec<String> {
    let manifest = tree.toml(MANIFEST);
    let stated = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let Some(stated) = stated.and_then(|value| value.as_table()) else { return Vec::new() };
    let external = stated.iter().filter(|(_, value)| value.get("path").is_none());
    external.map(|(name, _)| name.clone()).collect()
}

/// `[workspace.dependencies]` and the arguments in `deny.toml` name the same crates.
pub(super) fn argued(tree: &Tree) -> Vec<Finding> {
    let stated = external(tree);
    let (mut argued, mut found) = (Vec::new(), Vec::new());
    let text = tree.file(DENY).map_or("", |file| file.text.as_str());
    for (index, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix(ARGUMENT) else { continue };
        let (name, why) = rest.split_once(':').unwrap_or((rest, ""));
        if why.trim().len() < ARGUMENT_MIN {
            let what = format!("expected an argument for `{name}`, found {why:?}");
            found.push(Finding::new(DENY, index + 1, what));
        }
        if !stated.iter().any(|stated| stated == name) {
            let what = format!("`{name}` is argued for but not in [workspace.dependencies]");
            found.push(Finding::new(DENY, index + 1, what));
        }
        argued.push(name.to_owned());
    }
    for name in stated.iter().filter(|name| !argued.contains(name)) {
        let what = format!("`{name}` needs a line `{ARGUMENT}{name}: why` in {DENY}");
        found.push(Finding::new(MANIFEST, 0, what));
    }
    found
}

/// Every stated dependency must be used by some member, for some target; otherwise it is a finding.
pub(super) fn used(tree: &Tree) -> Vec<Finding> {
    let takes = |name: &str| {
        let mut all = tree.packages.iter().flat_map(|package| &package.depends);
        all.any(|depends| depends.name == name)
    };
    let what = |name| format!("no member takes `{name}`: remove it from [workspace.dependencies]");
    let idle = external(tree).into_iter().filter(|name| !takes(name));
    idle.map(|name| Finding::new(MANIFEST, 0, what(name))).collect()
}

/// Members take external crates from `[workspace.dependencies]`, so that none slips in unargued.
pub(super) fn inherited(tree: &Tree) -> Vec<Finding> {
    let stated = external(tree);
    of_packages(tree, |package| {
        let names = package.depends.iter().filter(|depends| !depends.ours).map(|it| &it.name);
        let strangers = names.filter(|name| !stated.contains(name));
        let what = strangers.map(|name| {
            format!(
                "`{name}` is not in [workspace.dependencies]: state it there and write \
                 `{name}.workspace = true` here"
            )
        });
        what.collect()
    })
}
