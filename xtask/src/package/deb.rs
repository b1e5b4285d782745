//! A package for Debian (deb(5)): an `ar` archive of the format's version, of data about the
//! package, and of the files.

use super::{Files, Parts, glibc, gzip, texts};
use anyhow::Context;
use md5::{Digest, Md5};
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

/// Debian wants an address here; there is none yet (RFC 2606 section 2).
const MAINTAINER: &str = "Roundhouse developers <developers@roundhouse.invalid>";

/// The settings of each service, which an upgrade leaves as the administrator changed them.
const SETTINGS: &[&str] = &["echo", "game", "http", "media", "stock"];

/// Builds `roundhouse_VERSION_ARCH.deb`.
pub(super) fn build(parts: &Parts) -> anyhow::Result<(String, Vec<u8>)> {
    let arch = super::image::architecture();
    let files = files(parts)?;
    let mut about = Files::default();
    about.add("control", 0o644, control(parts, arch, &files)?.into());
    let script = fs::read(crate::root().join("packaging/postinst")).context("postinst")?;
    about.add("postinst", 0o755, script);
    about.add("md5sums", 0o644, sums(&files).into());
    let kept = files.iter().filter(|(path, ..)| path.starts_with("etc/"));
    let kept: String = kept.map(|(path, ..)| format!("/{path}\n")).collect();
    about.add("conffiles", 0o644, kept.into());
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&about.tar(parts.time)?)?),
        ("data.tar.gz", gzip(&files.tar(parts.time)?)?),
    ];
    Ok((format!("roundhouse_{}_{arch}.deb", parts.version), ar(&members, parts.time)))
}

fn files(parts: &Parts) -> anyhow::Result<Files> {
    let mut files = parts.installed("usr/")?;
    let doc = "usr/share/doc/roundhouse";
    for (name, bytes) in texts()? {
        match name {
            "README.md" => files.add(&format!("{doc}/{name}"), 0o644, bytes),
            "CHANGELOG.md" => files.add(&format!("{doc}/{name}"), 0o644, bytes),
            _ => {}
        }
    }
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(parts.time));
    let changes = format!(
        "roundhouse ({}) unstable; urgency=medium\n\n  * See CHANGELOG.md next to this file.\n\n \
         -- {MAINTAINER}  {}\n",
        parts.version,
        date.replace("GMT", "+0000")
    );
    files.add(&format!("{doc}/changelog.gz"), 0o644, gzip(changes.as_bytes())?);
    let rights = fs::read(crate::root().join("packaging/copyright")).context("copyright")?;
    files.add(&format!("{doc}/copyright"), 0o644, rights);
    for folder in ["docs", "docs/engines", "docs/ko", "docs/notes", "docs/tutorials"] {
        for entry in fs::read_dir(crate::root().join(folder))?.flatten() {
            if entry.file_type()?.is_file() {
                let name = entry.file_name();
                let path = format!("{doc}/{folder}/{}", name.to_string_lossy());
                files.add(&path, 0o644, fs::read(entry.path())?);
            }
        }
    }
    if parts.libraries.is_empty() {
        let text = "# One static binary runs on every distribution.\n\
            roundhouse: statically-linked-binary [usr/bin/roundhouse]\n\
            roundhouse: shared-library-lacks-prerequisites [usr/bin/roundhouse]\n";
        files.add("usr/share/lintian/overrides/roundhouse", 0o644, text.into());
    }
    for name in SETTINGS {
        let text = format!(
            "// Options of roundhouse@{name}: any of `roundhouse serve {name} --help-all` without\n\
             // the dashes, as `name = value`. Then: systemctl reload roundhouse@{name}\n\n\
             // host = 0.0.0.0\n"
        );
        files.add(&format!("etc/roundhouse/{name}.conf"), 0o644, text.into());
    }
    Ok(files)
}

fn control(parts: &Parts, arch: &str, files: &Files) -> anyhow::Result<String> {
    let kibibytes: usize = files.iter().map(|(.., bytes)| bytes.len().div_ceil(1024)).sum();
    let depends = match parts.libraries.is_empty() {
        true => String::new(),
        false => format!("Depends: libc6 (>= {}), libgcc-s1\n", glibc()?),
    };
    Ok(format!(
        "Package: roundhouse\nVersion: {}\nArchitecture: {arch}\nSection: net\n\
         Priority: optional\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kibibytes}\n{depends}\
         Description: servers of every architecture, and races between them\n \
         A service is written once and runs on every architecture: one process or\n \
         many, blocking calls, epoll or io_uring. A laboratory races them.\n",
        parts.version
    ))
}

/// The digests that `dpkg --verify` compares.
fn sums(files: &Files) -> String {
    let line = |(path, _, bytes): (&str, u32, &[u8])| {
        let digest: String = Md5::digest(bytes).iter().map(|it| format!("{it:02x}")).collect();
        format!("{digest}  {path}\n")
    };
    files.iter().filter(|(path, ..)| !path.starts_with("etc/")).map(line).collect()
}

/// An archive of ar(5): a line about each member, then its bytes, padded to an even length.
fn ar(members: &[(&str, Vec<u8>)], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let line =
            format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100_644, bytes.len());
        archive.extend(line.as_bytes());
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(2), b'\n');
    }
    archive
}
