//! Packages of a program that is not one: their entries, modes and digests.

use super::*;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};

fn parts() -> Parts {
    Parts {
        binary: b"\x7fELF".to_vec(),
        version: "1.2.3".to_owned(),
        libraries: Vec::new(),
        pages: vec![("roundhouse.1".to_owned(), b".TH roundhouse 1\n".to_vec())],
        completions: ["bash", "zsh", "fish"].map(|shell| (shell, shell.into())).to_vec(),
        time: 1_000_000_000,
    }
}

/// Modes and bytes of the files in a tar archive.
fn entries(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let mut found = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (path, header) = (entry.path().unwrap().display().to_string(), entry.header().clone());
        assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 1_000_000_000), "{path}");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        assert!(found.insert(path.clone(), (header.mode().unwrap(), bytes)).is_none(), "{path}");
    }
    found
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut all).unwrap();
    all
}

/// The members of an ar archive.
fn members(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut rest = bytes.strip_prefix(b"!<arch>\n").expect("an ar archive");
    let mut found = BTreeMap::new();
    while !rest.is_empty() {
        let line = std::str::from_utf8(&rest[..60]).unwrap();
        let len: usize = line[48..58].trim().parse().unwrap();
        found.insert(line[..16].trim().to_owned(), rest[60..60 + len].to_vec());
        rest = &rest[60 + len.next_multiple_of(2)..];
    }
    found
}

#[test]
fn an_archive_is_an_installation() {
    let (name, bytes) = archive(&parts()).unwrap();
    assert_eq!(name, format!("roundhouse-1.2.3-{ARCH}-linux.tar.gz"));
    let found = entries(&unpacked(&bytes));
    let at = |path: &str| &found[&format!("roundhouse-1.2.3-{ARCH}-linux/{path}")];
    assert_eq!(at("bin/roundhouse"), &(0o755, b"\x7fELF".to_vec()));
    assert_eq!(unpacked(&at("share/man/man1/roundhouse.1.gz").1), b".TH roundhouse 1\n");
    assert_eq!(at("share/zsh/vendor-completions/_roundhouse"), &(0o644, b"zsh".to_vec()));
    assert_eq!(at("lib/systemd/").0, 0o755);
    assert_eq!(archive(&parts()).unwrap().1, bytes, "the same inputs give the same bytes");
}

#[test]
fn a_deb_has_its_three_members() {
    let (name, bytes) = deb::build(&parts()).unwrap();
    assert!(name.starts_with("roundhouse_1.2.3_") && name.ends_with(".deb"), "{name}");
    let members = members(&bytes);
    assert_eq!(members["debian-binary"], b"2.0\n");
    let about = entries(&unpacked(&members["control.tar.gz"]));
    let text = |name: &str| String::from_utf8(about[name].1.clone()).unwrap();
    assert!(text("control").contains("Version: 1.2.3\n"), "{}", text("control"));
    assert!(!text("control").contains("Depends"), "a static binary needs nothing");
    assert!(text("conffiles").contains("/etc/roundhouse/http.conf\n"));
    let files = entries(&unpacked(&members["data.tar.gz"]));
    assert_eq!(files["usr/bin/roundhouse"].0, 0o755);
    assert_eq!(files["usr/lib/systemd/system/roundhouse@.service"].0, 0o644);
    for line in text("md5sums").lines() {
        assert!(files.contains_key(&line[34..]), "{line}");
    }
}

#[test]
fn a_wheel_lists_its_files() {
    let (name, bytes) = wheel::build(&parts()).unwrap();
    assert!(name.starts_with("roundhouse_server-1.2.3-py3-none-manylinux_2_17_"), "{name}");
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let script = archive.by_name("roundhouse_server-1.2.3.data/scripts/roundhouse").unwrap();
    assert_eq!(script.unix_mode().map(|mode| mode & 0o777), Some(0o755));
    drop(script);
    let mut record = String::new();
    let place = "roundhouse_server-1.2.3.dist-info/RECORD";
    archive.by_name(place).unwrap().read_to_string(&mut record).unwrap();
    let listed: Vec<_> = record.lines().map(|line| line.split(',').next().unwrap()).collect();
    let mut held: Vec<_> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    held.sort_unstable();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, held);
    // printf '\x7fELF' | openssl dgst -sha256 -binary | basenc --base64url
    let line = "/scripts/roundhouse,sha256=O9u0_oOXzSuEJDCznM_wGoZjx1GUXvXpoJ4mf7ix01k,4\n";
    assert!(record.contains(line), "{record}");
}

#[test]
fn an_image_names_each_blob_by_its_digest() {
    let (_, bytes) = image::build(&parts()).unwrap();
    let found = entries(&bytes);
    let blob = |place: &serde_json::Value| {
        let digest = place["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = &found[&format!("blobs/sha256/{digest}")].1;
        assert_eq!(super::digest(bytes), digest);
        assert_eq!(place["size"], bytes.len());
        bytes
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    let manifest = json(blob(&json(&found["index.json"].1)["manifests"][0]));
    let config = json(blob(&manifest["config"]));
    let layer = unpacked(blob(&manifest["layers"][0]));
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", super::digest(&layer)));
    assert_ne!(config["config"]["User"], "0:0");
    let files = entries(&layer);
    assert_eq!(files["usr/bin/roundhouse"].0, 0o755);
    assert_eq!(files["tmp/"].0, 0o1777);
}

#[test]
fn an_unknown_kind_is_refused() {
    let ask = |line: &str| Ask::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(ask("deb wheel").unwrap().kinds, ["deb", "wheel"]);
    assert_eq!(ask("all --binary a").unwrap().binary, Some("a".into()));
    assert!(ask("rpm").unwrap_err().to_string().contains("found `rpm`"));
    assert!(ask("--out x").is_err() && ask("deb --binary").is_err());
}

#[test]
fn checksums_are_those_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b"), "").unwrap();
    fs::write(folder.path().join("a"), "abc").unwrap();
    fs::write(folder.path().join(SUMS), "old").unwrap();
    // FIPS 180-4's example, and the digest of nothing.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(sums(folder.path()).unwrap(), format!("{abc}  a\n{nothing}  b\n"));
}

#[test]
fn the_script_installs_from_a_folder_or_an_address_and_refuses_a_wrong_file() {
    let room = tempfile::tempdir().unwrap();
    let (name, bytes) = archive(&parts()).unwrap();
    let folder = room.path().join("release");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(&name), bytes).unwrap();
    fs::write(folder.join("install.sh"), INSTALL).unwrap();
    fs::write(folder.join(SUMS), sums(&folder).unwrap()).unwrap();
    let install = |from: &str, prefix: &str| {
        let mut shell = Command::new("sh");
        shell.arg(folder.join("install.sh")).arg(from).arg(room.path().join(prefix));
        shell.output().expect("sh")
    };
    let place = folder.display().to_string();
    for (from, prefix) in [(place.clone(), "a"), (format!("file://{place}"), "b")] {
        let done = install(&from, prefix);
        assert!(done.status.success(), "{done:?}");
        let binary = room.path().join(prefix).join("bin/roundhouse");
        assert_eq!(fs::read(binary).unwrap(), b"\x7fELF");
    }
    fs::write(folder.join(&name), "damaged").unwrap();
    assert!(!install(&place, "c").status.success() && !room.path().join("c").exists());
    fs::write(folder.join(SUMS), "").unwrap();
    let done = install(&place, "c");
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && why.contains("expected a release for"), "{why}");
}
