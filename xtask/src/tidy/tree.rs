//! The input of the checks: the text files of the repository and the packages of the workspace.

use anyhow::Context;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Finding;

/// Directories of generated files.
const SKIPPED: &[&str] = &["target", "build"];
/// Directories of raw data, whose files are known by their paths alone.
const RAW: &[&str] = &["runs", "data"];
/// Hidden directories that are part of the source.
const HIDDEN: &[&str] = &[".ci", ".cargo"];
/// Endings of the files that are read.
const TEXT: &[&str] = &["rs", "c", "h", "toml", "md", "sh", "py", "html", "css", "js"];

/// A text file.
#[derive(Clone, Debug)]
pub struct File {
    /// The path below the root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The text of a `.rs`, `.c` or `.h` file with comments and literals blanked, line by line
    /// and column by column as in `text`; empty for other files.
    pub code: String,
}

impl File {
    /// A file with its code blanked from its text.
    pub fn new(path: &str, text: &str) -> Self {
        let mut file = Self { path: path.to_owned(), text: text.to_owned(), code: String::new() };
        if file.is_source() {
            file.code = super::blank(text);
        }
        file
    }

    /// The part after the last dot of the name, or empty.
    pub fn ending(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, ending)| ending)
    }

    /// Whether this is Rust.
    pub fn is_rust(&self) -> bool {
        self.ending() == "rs"
    }

    /// Whether this is Rust or C.
    pub fn is_source(&self) -> bool {
        matches!(self.ending(), "rs" | "c" | "h")
    }
}

/// A dependency as a `Cargo.toml` states it.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The package's name, one of ours without `roundhouse-`.
    pub name: String,
    /// Whether only tests use it.
    pub dev: bool,
    /// Whether it is a member of this workspace.
    pub ours: bool,
}

/// A member of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name without `roundhouse-`, which is its folder's name.
    pub name: String,
    /// Its folder below the root.
    pub dir: String,
    /// Its direct dependencies.
    pub depends: Vec<Dependency>,
}

/// The input of all checks.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The text files in the order of their paths.
    pub files: Vec<File>,
    /// The members of the workspace.
    pub packages: Vec<Package>,
    /// The paths of all files and folders.
    pub paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the repository at `root`, and its packages from `cargo metadata`.
    ///
    /// # Errors
    /// If a directory cannot be read or `cargo metadata` fails.
    pub fn load(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self { packages: packages(root)?, ..Self::default() };
        tree.walk(root, root, false)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The file at `path` as TOML; an empty table if it is absent or not TOML.
    pub fn toml(&self, path: &str) -> toml::Table {
        self.file(path).and_then(|file| file.text.parse().ok()).unwrap_or_default()
    }

    /// What `judge` says of each line of each file: of its text, and of its code, which is empty
    /// in other files than those of Rust and C.
    pub(super) fn judge<T: IntoIterator<Item = String>>(
        &self,
        judge: impl Fn(&File, &str, &str) -> T,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        for file in &self.files {
            let code = file.code.lines().chain(std::iter::repeat(""));
            for (at, (line, code)) in file.text.lines().zip(code).enumerate() {
                let says = judge(file, line, code).into_iter();
                found.extend(says.map(|what| Finding::new(&file.path, at + 1, what)));
            }
        }
        found
    }

    fn walk(&mut self, root: &Path, dir: &Path, is_raw: bool) -> anyhow::Result<()> {
        for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let below = path.strip_prefix(root).expect("the walk stays below its root");
            let below = below.to_string_lossy().into_owned();
            if path.is_dir() {
                let hidden = name.starts_with('.') && !HIDDEN.contains(&name.as_str());
                if !hidden && !SKIPPED.contains(&name.as_str()) {
                    self.paths.insert(below);
                    self.walk(root, &path, is_raw || RAW.contains(&name.as_str()))?;
                }
                continue;
            }
            self.paths.insert(below.clone());
            let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            let is_script = dir.file_name().is_some_and(|name| name == ".ci");
            if is_raw || (!TEXT.contains(&ending) && !is_script) {
                continue;
            }
            // A file may vanish while we walk (editors), or be bytes on purpose (encodings).
            if let Ok(text) = fs::read_to_string(&path) {
                self.files.push(File::new(&below, &text));
            }
        }
        Ok(())
    }
}

/// The name that the code uses: ours have a prefix only where they are published, and the facade's
/// own name is taken there.
fn short(name: &str) -> String {
    let name = if name == "roundhouse-runtime" { "roundhouse" } else { name };
    name.strip_prefix("roundhouse-").unwrap_or(name).to_string()
}

fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    let mut packages = Vec::new();
    for package in &metadata.packages {
        let dir = package.manifest_path.parent().expect("a manifest lies in a folder");
        let dir = dir.strip_prefix(root).unwrap_or(dir);
        let depends = package.dependencies.iter().map(|depends| Dependency {
            name: short(&depends.name),
            dev: depends.kind == cargo_metadata::DependencyKind::Development,
            ours: depends.path.is_some(),
        });
        packages.push(Package {
            name: short(&package.name),
            dir: dir.to_string(),
            depends: depends.collect(),
        });
    }
    Ok(packages)
}
