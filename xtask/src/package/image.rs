//! A container image: an archive in the layout of the Open Container Initiative, with one layer.
//!
//! The image holds the binary and nothing else but the libraries that a dynamic binary needs. It
//! runs as a user without privileges and writes no file, so its root can be read-only.

use super::{ARCH, Files, Parts, digest, gzip};
use anyhow::Context;
use serde_json::json;
use std::fs;

/// A user without a name here, as images without a shell use it.
const USER: u32 = 65532;

/// Builds `roundhouse-VERSION-ARCH.oci.tar`.
pub(super) fn build(parts: &Parts) -> anyhow::Result<(String, Vec<u8>)> {
    let layer = layer(parts)?.tar(parts.time)?;
    let packed = gzip(&layer)?;
    let mut files = Files::default();
    let mut blob = |bytes: Vec<u8>, kind: &str| {
        let (digest, size) = (digest(&bytes), bytes.len());
        files.add(&format!("blobs/sha256/{digest}"), 0o644, bytes);
        let media = format!("application/vnd.oci.image.{kind}");
        json!({ "mediaType": media, "digest": format!("sha256:{digest}"), "size": size })
    };
    let text = fs::read_to_string(crate::root().join("packaging/image.json"))?;
    // `Healthcheck` is an addition of Docker's.
    let words =
        [("@ARCH@", architecture()), ("@VERSION@", &parts.version), ("@LAYER@", &digest(&layer))];
    let config = words.iter().fold(text, |text, (word, value)| text.replace(word, value));
    let config = blob(config.into(), "config.v1+json");
    let layer = blob(packed, "layer.v1.tar+gzip");
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": media, "config": config, "layers": [layer],
    });
    let mut entry = blob(serde_json::to_vec(&manifest)?, "manifest.v1+json");
    entry["platform"] = json!({ "os": "linux", "architecture": architecture() });
    entry["annotations"] = json!({
        "org.opencontainers.image.ref.name": parts.version,
        "io.containerd.image.name": format!("localhost/roundhouse:{}", parts.version),
    });
    let index = json!({ "schemaVersion": 2, "manifests": [entry] });
    files.add("index.json", 0o644, serde_json::to_vec(&index)?);
    files.add("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
    Ok((format!("roundhouse-{}-{ARCH}.oci.tar", parts.version), files.tar(parts.time)?))
}

/// The architecture in the words of Go, and of Debian.
pub(super) fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn layer(parts: &Parts) -> anyhow::Result<Files> {
    let mut files = Files::default();
    files.add("usr/bin/roundhouse", 0o755, parts.binary.clone());
    files.add("etc/passwd", 0o644, format!("roundhouse:x:{USER}:{USER}::/:\n").into());
    files.add("etc/group", 0o644, format!("roundhouse:x:{USER}:\n").into());
    files.add("tmp/", 0o1777, Vec::new());
    files.add("srv/index.html", 0o644, b"<!doctype html><title>Roundhouse</title>\n".to_vec());
    for path in &parts.libraries {
        let place = path.to_string_lossy();
        let bytes = fs::read(path).with_context(|| format!("the library {place}"))?;
        files.add(place.trim_start_matches('/'), 0o755, bytes);
    }
    Ok(files)
}
