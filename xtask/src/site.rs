//! `cargo xtask site`: the documents as a site with search, by mdBook.
//!
//! `docs/README.md` is the table of contents. The pages keep their places in the repository, so
//! that one link serves both readers. Help texts, metrics, schemas, kept results and recordings of
//! engines are added from the program itself. Every link and every anchor must lead somewhere.

mod check;
mod reference;

use crate::steps;
use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of mdBook that is installed if there is none on the path.
const MDBOOK: &str = "mdbook@0.5.4";

/// The table of contents, which the site shows at the side of every page.
const CONTENTS: &str = "docs/README.md";

const BOOK: &str = "[book]\ntitle = \"Roundhouse\"\nlanguage = \"en\"\nsrc = \"source\"\n\
    [build]\nbuild-dir = \"html\"\ncreate-missing = false\n\
    [output.html]\nno-section-label = true\nadditional-css = [\"roundhouse.css\"]\n\
    [output.html.fold]\nenable = true\n";

/// Links of the dark themes, whose own colours are hard to read; Hangul breaks between words.
const STYLE: &str = ".navy, .coal { --links: #6cb6e8; }\nmain { word-break: keep-all; }\n";

/// Builds the site in `target/site/html`; with `--check` only its sources, whose links it checks.
///
/// # Errors
/// A link without a target, a missing tool, or a file that cannot be written.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let mut is_check = false;
    let mut binary = None;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => is_check = true,
            "--binary" => binary = Some(words.next().context("expected a path after --binary")?),
            _ => bail!("expected --check or --binary PATH, found `{word}`"),
        }
    }
    let binary = match binary {
        Some(path) => fs::canonicalize(path).with_context(|| format!("find {path}"))?,
        None => {
            let build =
                ["build", "--profile", steps::PROFILE, "--workspace", "--bin", "roundhouse"];
            steps::run(&mut steps::cargo(build), "cargo")?;
            steps::binary("roundhouse", steps::PROFILE)?
        }
    };
    let target = steps::target_dir()?;
    let place = target.join("site");
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("remove {}", place.display()))?;
    }
    let mut site = Site { source: place.join("source"), taken: BTreeSet::new() };
    let mut summary = site.pages()?;
    summary.push_str(&reference::write(&mut site, &binary, !is_check)?);
    summary.push_str("\n# Further pages\n\n");
    for path in site.taken.iter().map(|path| as_page(path)) {
        if !summary.contains(&format!("]({path})")) {
            let name = path.trim_end_matches("/index.md").trim_end_matches(".md");
            _ = writeln!(summary, "- [{name}]({path})");
        }
    }
    site.write("SUMMARY.md", &summary)?;
    fs::write(place.join("book.toml"), BOOK)?;
    fs::write(place.join("roundhouse.css"), STYLE)?;
    let pages = check::links(&site.source)?;
    eprintln!("   {pages} pages, every link leads somewhere");
    if !is_check {
        let needs = "cargo install mdbook";
        steps::run(Command::new(mdbook(&target)?).args(["build"]).arg(&place), needs)?;
        eprintln!("   {}", place.join("html/index.html").display());
    }
    Ok(())
}

/// mdBook from the path, or ours in `target/tools`, installed if it is not there.
///
/// # Errors
/// It is missing, and cargo cannot install it.
fn mdbook(target: &Path) -> anyhow::Result<PathBuf> {
    let silent = |program: &Path| {
        let mut ask = Command::new(program);
        ask.arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success())
    };
    let ours = target.join("tools/bin/mdbook");
    if let Some(found) = [PathBuf::from("mdbook"), ours.clone()].into_iter().find(|it| silent(it)) {
        return Ok(found);
    }
    let root = target.join("tools");
    let mut install =
        steps::cargo(["install", MDBOOK, "--locked", "--debug", "--no-default-features"]);
    install.args(["--quiet", "--features", "search", "--root"]).arg(root);
    steps::run(&mut install, "cargo")?;
    Ok(ours)
}

/// The sources of the site, in the making.
struct Site {
    source: PathBuf,
    /// Files that were taken from the repository, by path.
    taken: BTreeSet<String>,
}

impl Site {
    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let path = self.source.join(path);
        fs::create_dir_all(path.parent().context("a path below the sources")?)?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Takes every page of the table of contents; returns the table with paths from the root.
    fn pages(&mut self) -> anyhow::Result<String> {
        let contents = fs::read_to_string(crate::root().join(CONTENTS))?;
        let mut listed = Vec::new();
        let summary = relink(&contents, |link| {
            let path = below("docs", link);
            listed.push(path.clone());
            Some(as_page(&path))
        });
        for path in listed {
            self.page(&path)?;
        }
        Ok(summary)
    }

    /// Takes a page, and the files that it links to.
    fn page(&mut self, path: &str) -> anyhow::Result<()> {
        if !self.taken.insert(path.to_owned()) {
            return Ok(());
        }
        let text = fs::read_to_string(crate::root().join(path));
        let text = text.with_context(|| format!("expected the page {path}"))?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut files = Vec::new();
        let text = relink(&text, |link| {
            let (file, anchor) = link.split_at(link.find('#').unwrap_or(link.len()));
            let found = below(folder, file);
            let on_disk = crate::root().join(&found);
            if file.is_empty() || !on_disk.exists() {
                return Some(link.to_owned());
            }
            if on_disk.is_dir() || found == CONTENTS {
                return None;
            }
            files.push(found);
            Some(format!("{}{anchor}", as_page(file)))
        });
        self.write(&as_page(path), &text)?;
        // The pictures of elements of HTML keep their names, so their places need no change.
        for start in [" src=\"", " srcset=\""] {
            let places = text.split(start).skip(1).filter_map(|rest| rest.split('"').next());
            let places = places.map(|place| below(folder, place));
            files.extend(places.filter(|place| crate::root().join(place).is_file()));
        }
        for file in files {
            match file.ends_with(".md") {
                true => self.page(&file)?,
                false => {
                    let bytes = fs::read(crate::root().join(&file))?;
                    self.write(&as_page(&file), &bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// The name of a file on the site: `README.md` is a folder's first page, and a browser shows the
/// text of any other source but packed data.
fn as_page(path: &str) -> String {
    match path.rsplit_once('.') {
        _ if path.ends_with("README.md") => {
            format!("{}index.md", path.trim_end_matches("README.md"))
        }
        Some((_, "md" | "svg" | "png" | "gif" | "html" | "gz")) => path.to_owned(),
        _ => format!("{path}.txt"),
    }
}

/// The path of `link` on a page in `folder`, from the root.
fn below(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The text with each relative link replaced; a link for which `to` has none becomes plain text.
fn relink(text: &str, mut to: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        let link = &rest[at + 2..];
        let end = link.find([')', ' ', '\n']).unwrap_or(link.len());
        let is_link = link[end..].starts_with(')') && !link[..end].contains("://");
        match is_link.then(|| to(&link[..end])) {
            Some(None) => {
                let open = rest[..at].rfind('[').unwrap_or(0);
                out.push_str(&rest[..open]);
                out.push_str(rest[open..at].trim_start_matches('['));
                rest = &link[end + 1..];
            }
            replaced => {
                out.push_str(&rest[..at + 2]);
                out.push_str(replaced.flatten().as_deref().unwrap_or(&link[..end]));
                rest = &link[end..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_its_meaning_at_its_place() {
        assert_eq!(below("docs/tutorials", "../../README.md"), "README.md");
        assert_eq!(below("", "docs/./ab.md"), "docs/ab.md");
        assert_eq!(as_page("README.md"), "index.md");
        assert_eq!(as_page("experiments/README.md"), "experiments/index.md");
        assert_eq!(as_page("tests/skips.toml"), "tests/skips.toml.txt");
    }

    #[test]
    fn a_link_is_replaced_or_becomes_text() {
        let to = |link: &str| (link != "bare/").then(|| format!("<{link}>"));
        let text = "see [a](x.md#y), [`bare`](bare/) and [web](https://a/b); not f](x y)";
        let expected = "see [a](<x.md#y>), `bare` and [web](https://a/b); not f](x y)";
        assert_eq!(relink(text, to), expected);
    }
}
