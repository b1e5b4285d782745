//! A package for pip: a zip with the binary for the path, man pages, and the module `roundhouse`
//! (the binary distribution format of packaging.python.org).

use super::{ARCH, Files, Parts, glibc, texts};
use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;

/// The name in `pip install`; in names of files its dash is an underscore.
const NAME: &str = "roundhouse-server";

/// Builds `roundhouse_server-VERSION-py3-none-PLATFORM.whl`.
pub(super) fn build(parts: &Parts) -> anyhow::Result<(String, Vec<u8>)> {
    let stem = format!("{}-{}", NAME.replace('-', "_"), parts.version);
    let platform = match parts.libraries.is_empty() {
        true => format!("manylinux_2_17_{ARCH}.musllinux_1_1_{ARCH}"),
        false => format!("manylinux_{}_{ARCH}", glibc()?.replace('.', "_")),
    };
    let files = files(parts, &stem, &platform)?;
    Ok((format!("{stem}-py3-none-{platform}.whl"), zipped(&files)?))
}

fn files(parts: &Parts, stem: &str, platform: &str) -> anyhow::Result<Files> {
    let mut files = Files::default();
    let root = crate::root();
    let module = "python/roundhouse/__init__.py";
    files.add("roundhouse/__init__.py", 0o644, fs::read(root.join(module)).context(module)?);
    files.add(&format!("{stem}.data/scripts/roundhouse"), 0o755, parts.binary.clone());
    parts.share(&mut files, &format!("{stem}.data/data/share/"))?;
    let info = format!("{stem}.dist-info");
    let mut readme = String::new();
    for (name, bytes) in texts()? {
        match name {
            "README.md" => readme = String::from_utf8(bytes).context(name)?,
            "CHANGELOG.md" => {}
            _ => files.add(&format!("{info}/licenses/{name}"), 0o644, bytes),
        }
    }
    let tags: String = platform.split('.').map(|it| format!("Tag: py3-none-{it}\n")).collect();
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask package\nRoot-Is-Purelib: false\n{tags}"
    );
    let about = format!(
        "Metadata-Version: 2.4\nName: {NAME}\nVersion: {}\n\
         Summary: One service on every server architecture, and races between them\n\
         License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-MIT\n\
         License-File: LICENSE-APACHE\nRequires-Python: >=3.9\nProvides-Extra: pandas\n\
         Requires-Dist: pandas; extra == \"pandas\"\n\
         Description-Content-Type: text/markdown\n\n{readme}",
        parts.version
    );
    files.add(&format!("{info}/WHEEL"), 0o644, wheel.into());
    files.add(&format!("{info}/METADATA"), 0o644, about.into());
    let record = record(&files, &format!("{info}/RECORD"));
    files.add(&format!("{info}/RECORD"), 0o644, record.into());
    Ok(files)
}

/// The list of all files with their digests; it names itself without one.
fn record(files: &Files, own: &str) -> String {
    let line = |(path, _, bytes): (&str, u32, &[u8])| {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        format!("{path},sha256={digest},{}\n", bytes.len())
    };
    files.iter().map(line).collect::<String>() + own + ",,\n"
}

fn zipped(files: &Files) -> anyhow::Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, mode, bytes) in files.iter() {
        archive.start_file(path, SimpleFileOptions::default().unix_permissions(mode))?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}
