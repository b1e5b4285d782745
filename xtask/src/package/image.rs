//! A container image: an archive in the layout of the Open Container Initiative, with one layer.
//!
//! The image holds the binary and nothing else but the libraries that a dynamic binary needs. It
//! runs as a user without privileges and writes no file, so its root can be read-only.

use super::{ARCH, Files, Parts, digest, gzip};
use anyhow::Context;
use serde_json::{Value, json};
use std::fs;

/// A user without a name here, as images without a shell use it.
const USER: u32 = 65532;
/// The administration, which the health check asks.
const ADMIN: &str = "127.0.0.1:9000";
/// The port of the server.
const PORT: &str = "1234";

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
    let config = blob(serde_json::to_vec(&config(&parts.version, &layer))?, "config.v1+json");
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

/// The architecture in the words of Go, which these formats use.
fn architecture() -> &'static str {
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

/// The image's configuration. `Healthcheck` is Docker's addition, which podman reads too.
pub(super) fn config(version: &str, layer: &[u8]) -> Value {
    let command = ["serve", "http", "/srv", "--host", "0.0.0.0", "--port", PORT];
    let command = [&command[..], &["--admin", ADMIN]].concat();
    let health = ["CMD", "/usr/bin/roundhouse", "top", ADMIN, "--once", "--interval", "100ms"];
    json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { format!("{PORT}/tcp"): {} },
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/roundhouse"],
            "Cmd": command,
            "WorkingDir": "/srv",
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": health,
                "Interval": 10_000_000_000_u64,
                "Timeout": 3_000_000_000_u64,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "roundhouse",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                "org.opencontainers.image.description":
                    "One service on every server architecture. The engines uring and port need \
                     --security-opt seccomp=PROFILE with io_uring_setup, io_uring_enter and \
                     io_uring_register; all others need nothing.",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", digest(layer))] },
        "history": [{ "created_by": "cargo xtask package image" }],
    })
}
