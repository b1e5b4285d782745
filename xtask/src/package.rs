//! `cargo xtask package KIND`: what people install, from one binary.
//!
//! Each package is written by itself, without a daemon and without privileges, and the same inputs
//! give the same bytes. Without `--binary` a static binary is built (profile `dist`, musl), which
//! runs on every distribution. The binary writes its own completions and man pages.

mod deb;
mod files;
mod image;
mod wheel;

use crate::steps;
use anyhow::{Context, anyhow, bail};
use files::Files;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::env::consts::ARCH;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const KINDS: &[(&str, Builder)] =
    &[("static", archive), ("deb", deb::build), ("wheel", wheel::build), ("image", image::build)];

/// Makes the file of a package: its name and its bytes.
type Builder = fn(&Parts) -> anyhow::Result<(String, Vec<u8>)>;

/// A program with what it says about itself.
struct Parts {
    /// Stripped.
    binary: Vec<u8>,
    version: String,
    /// The shared libraries that it loads, its loader among them; none for a static binary.
    libraries: Vec<PathBuf>,
    /// Man pages by file name.
    pages: Vec<(String, Vec<u8>)>,
    /// Completions by shell.
    completions: Vec<(&'static str, Vec<u8>)>,
    /// The time of all files, in seconds since 1970.
    time: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Ask {
    kinds: Vec<&'static str>,
    binary: Option<PathBuf>,
    out: Option<PathBuf>,
}

impl Ask {
    fn parse(args: &[String]) -> anyhow::Result<Ask> {
        let mut ask = Ask { kinds: Vec::new(), binary: None, out: None };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut path = || words.next().with_context(|| format!("expected a path after {word}"));
            match word.as_str() {
                "--binary" => ask.binary = Some(path()?.into()),
                "--out" => ask.out = Some(path()?.into()),
                "all" => ask.kinds.extend(KINDS.iter().map(|(name, _)| name)),
                kind => match KINDS.iter().find(|(name, _)| *name == kind) {
                    Some((name, _)) => ask.kinds.push(name),
                    None => bail!("expected static, deb, wheel, image or all, found `{kind}`"),
                },
            }
        }
        if ask.kinds.is_empty() {
            bail!("expected a kind of package: static, deb, wheel, image or all");
        }
        Ok(ask)
    }
}

/// Builds the packages that are asked for, a script that installs, and `SHA256SUMS` of all in the
/// folder.
///
/// # Errors
/// A tool is missing, the binary does not run here, or a file cannot be written.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let ask = Ask::parse(args)?;
    let binary = ask.binary.map_or_else(built, Ok)?;
    let out = ask.out.map_or_else(|| Ok(steps::target_dir()?.join("package")), anyhow::Ok)?;
    fs::create_dir_all(&out).with_context(|| format!("make {}", out.display()))?;
    let parts = Parts::of(&binary)?;
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    let kind = if parts.libraries.is_empty() { "static" } else { "dynamic" };
    eprintln!("   {kind} binary, stripped: {:.1} MB", megabytes(parts.binary.len()));
    let kinds = KINDS.iter().filter(|(name, _)| ask.kinds.contains(name));
    let parts = &parts;
    // Each compresses the binary, which takes seconds.
    let built: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> =
            kinds.map(|(name, build)| (name, scope.spawn(move || build(parts)))).collect();
        started.into_iter().map(|(name, thread)| (name, thread.join())).collect()
    });
    for (name, made) in built {
        let made = made.map_err(|_| anyhow!("the thread of a package panicked"))?;
        let (file, bytes) = made.with_context(|| format!("the package `{name}`"))?;
        let path = out.join(file);
        fs::write(&path, &bytes).with_context(|| format!("write {}", path.display()))?;
        eprintln!("   {:.1} MB {}", megabytes(bytes.len()), path.display());
    }
    fs::write(out.join("install.sh"), INSTALL).context("write the script that installs")?;
    fs::write(out.join(SUMS), sums(&out)?).context("write the checksums")
}

/// Installs the static binary from the folder or an address.
const INSTALL: &str = include_str!("../../packaging/install.sh");

/// The file of checksums, for `sha256sum --check`.
const SUMS: &str = "SHA256SUMS";

fn sums(folder: &Path) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != SUMS && entry.file_type()?.is_file() {
            lines.push(format!("{}  {name}\n", digest(&fs::read(entry.path())?)));
        }
    }
    lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
    Ok(lines.concat())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    Ok(packer.finish()?)
}

/// Builds the static binary.
fn built() -> anyhow::Result<PathBuf> {
    let target = format!("{ARCH}-unknown-linux-musl");
    let args = ["build", "--profile", "dist", "--package", "roundhouse-cli", "--target", &target];
    let needs = format!("cargo; `rustup target add {target}` and musl-gcc (Debian: musl-tools)");
    steps::run(&mut steps::cargo(args), &needs).with_context(|| format!("this needs {needs}"))?;
    Ok(steps::target_dir()?.join(target).join("dist/roundhouse"))
}

pub(crate) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let line = steps::line(command);
    let output = command.output().with_context(|| format!("start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

impl Parts {
    fn of(binary: &Path) -> anyhow::Result<Parts> {
        let scratch = tempfile::tempdir().context("a temporary directory")?;
        let stripped = scratch.path().join("roundhouse");
        output(Command::new("strip").arg("-o").arg(&stripped).arg(binary))
            .context("strip(1) of binutils")?;
        let said = output(Command::new(&stripped).arg("--version"))?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let version = said.strip_prefix("roundhouse ");
        let version = version.with_context(|| format!("expected a version, found `{said}`"))?;
        let pages = scratch.path().join("pages");
        fs::create_dir(&pages)?;
        output(Command::new(&stripped).arg("man").arg(&pages))?;
        let page = |entry: fs::DirEntry| {
            Ok((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?))
        };
        let pages = fs::read_dir(&pages)?.flatten().map(page).collect::<anyhow::Result<_>>()?;
        let complete =
            |shell| Ok((shell, output(Command::new(&stripped).args(["completions", shell]))?));
        let completions =
            ["bash", "zsh", "fish"].into_iter().map(complete).collect::<anyhow::Result<_>>()?;
        Ok(Parts {
            binary: fs::read(&stripped)?,
            version: version.to_owned(),
            libraries: libraries(&stripped)?,
            pages,
            completions,
            time: time(),
        })
    }

    /// The files of an installation below `prefix`, which is empty or ends with a slash.
    fn installed(&self, prefix: &str) -> anyhow::Result<Files> {
        let mut files = Files::default();
        files.add(&format!("{prefix}bin/roundhouse"), 0o755, self.binary.clone());
        self.share(&mut files, &format!("{prefix}share/"))?;
        let units = crate::root().join("packaging");
        for (name, place) in [
            ("roundhouse@.service", "systemd/system/roundhouse@.service"),
            ("roundhouse@.socket", "systemd/system/roundhouse@.socket"),
            ("sysusers.conf", "sysusers.d/roundhouse.conf"),
        ] {
            let text = fs::read(units.join(name)).with_context(|| name)?;
            files.add(&format!("{prefix}lib/{place}"), 0o644, text);
        }
        Ok(files)
    }

    /// Adds man pages and completions below `share`.
    fn share(&self, files: &mut Files, share: &str) -> anyhow::Result<()> {
        for (name, page) in &self.pages {
            files.add(&format!("{share}man/man1/{name}.gz"), 0o644, gzip(page)?);
        }
        for (shell, script) in &self.completions {
            let place = match *shell {
                "bash" => "bash-completion/completions/roundhouse",
                "zsh" => "zsh/vendor-completions/_roundhouse",
                _ => "fish/vendor_completions.d/roundhouse.fish",
            };
            files.add(&format!("{share}{place}"), 0o644, script.clone());
        }
        Ok(())
    }
}

/// The time of all files: `SOURCE_DATE_EPOCH`, or that of the last commit.
fn time() -> u64 {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(crate::root());
    let commit = || String::from_utf8(output(&mut git).ok()?).ok();
    told.or_else(commit).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The shared libraries of a binary, as ldd(1) finds them.
fn libraries(binary: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let found = Command::new("ldd").arg(binary).output().context("start ldd")?;
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(Into::into);
    Ok(text.lines().filter(|line| line.contains("(0x")).filter_map(path).collect())
}

/// The version of the C library that a dynamic binary needs at most: the one here.
fn glibc() -> anyhow::Result<String> {
    let said = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok(said.split_whitespace().last().context("expected `glibc VERSION` of getconf")?.to_owned())
}

/// The texts that every package carries.
fn texts() -> anyhow::Result<Vec<(&'static str, Vec<u8>)>> {
    let names = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
    let read = |name| Ok((name, fs::read(crate::root().join(name)).with_context(|| name)?));
    names.into_iter().map(read).collect()
}

/// The `static` package.
fn archive(parts: &Parts) -> anyhow::Result<(String, Vec<u8>)> {
    let name = format!("roundhouse-{}-{ARCH}-linux", parts.version);
    let mut files = parts.installed(&format!("{name}/"))?;
    for (text, bytes) in texts()? {
        files.add(&format!("{name}/share/doc/roundhouse/{text}"), 0o644, bytes);
    }
    Ok((format!("{name}.tar.gz"), gzip(&files.tar(parts.time)?)?))
}

#[cfg(test)]
mod tests;
