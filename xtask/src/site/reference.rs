//! The pages that the program writes about itself.
//!
//! `cargo xtask site` passes the built binary, and every page is what that binary prints: `--help`
//! of all commands, keys from the JSON schemas, metrics from the `/metrics` of servers that are
//! started for it, recordings of engines. Nothing is written by hand, so the reference cannot
//! become stale. The results are the pages of `runs/`, listed with the day in their folder's name.

use super::Site;
use crate::package::output;
use crate::steps::Server;
use anyhow::Context;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The engines with a recording under `--check`.
const CHECKED: &[&str] = &["epoll", "thread"];

/// The services whose metrics are listed, as words of `roundhouse serve`.
const SERVICES: &[&[&str]] =
    &[&["stock", "--engine", "worker"], &["http", "--demo"], &["game"], &["media", "."]];

/// Writes all generated pages; returns their part of the table of contents.
pub(super) fn write(site: &mut Site, binary: &Path, all_engines: bool) -> anyhow::Result<String> {
    let mut summary = String::from("\n# Generated reference\n\n");
    summary.push_str(&commands(site, binary)?);
    schemas(site, binary)?;
    metrics(site, binary)?;
    settings(site, binary)?;
    moves(site, binary, all_engines)?;
    summary.push_str(
        "- [Every setting of a server](reference/settings.md)\n\
         - [Every metric](reference/metrics.md)\n- [Every JSON key](reference/json.md)\n",
    );
    summary.push_str("- [Engines, recorded](reference/moves.md)\n");
    summary.push_str(&results(site)?);
    Ok(summary)
}

fn said(binary: &Path, words: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(binary);
    command.args(words).env("COLUMNS", "80").stdin(Stdio::null());
    Ok(String::from_utf8_lossy(&output(&mut command)?).into_owned())
}

/// A page for each command: its help.
fn commands(site: &Site, binary: &Path) -> anyhow::Result<String> {
    let scratch = tempfile::tempdir().context("a temporary directory")?;
    said(binary, &["man", &scratch.path().display().to_string()])?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(scratch.path())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let words = name.trim_start_matches("roundhouse").trim_end_matches(".1").replace('-', " ");
        pages.push(words.trim().to_owned());
    }
    pages.sort();
    let mut summary = String::new();
    for words in &pages {
        let mut all: Vec<&str> = words.split_whitespace().collect();
        all.push("--help");
        let mut help = said(binary, &all)?;
        if help.contains("--help-all") {
            all.pop();
            all.push("--help-all");
            help = said(binary, &all)?;
        }
        let title = format!("roundhouse {words}");
        let path = format!("reference/{}.md", title.trim().replace(' ', "-"));
        site.write(&path, format!("# {title}\n\n```text\n{help}```\n"))?;
        let indent = if words.is_empty() { "" } else { "  " };
        _ = writeln!(summary, "{indent}- [{}]({path})", title.trim());
    }
    Ok(summary)
}

/// Each key of each JSON document.
fn schemas(site: &Site, binary: &Path) -> anyhow::Result<()> {
    let mut page = String::from("# Every JSON key\n\nFrom the schemas that the commands print.\n");
    for words in [["load", "--schema"], ["plan", "--schema"]] {
        let schema: Value = serde_json::from_str(&said(binary, &words)?)?;
        _ = writeln!(page, "\n## `roundhouse {}`\n", words.join(" "));
        keys(&mut page, &schema);
        for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
            _ = writeln!(page, "\n### {name}\n");
            keys(&mut page, part);
        }
    }
    site.write("reference/json.md", &page)
}

/// A table of the properties of one object, or the values of a choice.
fn keys(page: &mut String, schema: &Value) {
    let text = |value: &Value| {
        let text = value["description"].as_str().unwrap_or_default();
        text.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;")
    };
    _ = writeln!(page, "{}\n", text(schema));
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    page.push_str("| key | type | meaning |\n|---|---|---|\n");
    for (key, value) in properties {
        _ = writeln!(page, "| `{key}` | {} | {} |", kind(value), text(value));
    }
}

/// The type of a value in words.
fn kind(value: &Value) -> String {
    if let Some(name) = value["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or(name);
        return name.to_owned();
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(of) = value[choice].as_array() {
            return of.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    match &value["type"] {
        Value::String(name) if name == "array" => format!("array of {}", kind(&value["items"])),
        Value::String(name) => name.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => value["const"].as_str().map_or("any".to_owned(), |it| format!("`{it}`")),
    }
}

/// Each metric of each service, as a running server describes it.
fn metrics(site: &Site, binary: &Path) -> anyhow::Result<()> {
    let mut page = String::from("# Every metric\n\nFrom the `/metrics` of running servers.\n");
    for service in SERVICES {
        let text = Served::start(binary, service)?.get("/metrics")?;
        _ = writeln!(page, "\n## `serve {}`\n\n| metric | type | meaning |", service.join(" "));
        page.push_str("|---|---|---|\n");
        let mut meaning = "";
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                meaning = help.split_once(' ').map_or("", |(_, meaning)| meaning);
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
            {
                _ = writeln!(page, "| `{name}` | {kind} | {meaning} |");
            }
        }
    }
    site.write("reference/metrics.md", &page)
}

/// Each setting of each service by name: its value, its default, and whether a reload changes it.
fn settings(site: &Site, binary: &Path) -> anyhow::Result<()> {
    let mut page = String::from(
        "# Every setting of a server\n\nThe same names serve as flags (`--name`) and in the file \
         of `--config` (`name = value`). `roundhouse ctl reload` and SIGHUP read those again that \
         say so.\n",
    );
    for (service, words) in SERVICES.iter().map(|words| (words[0], words)) {
        let help = said(binary, &["serve", service, "--help-all"])?;
        let live = Served::start(binary, words)?.get("/status.json")?;
        let live = live.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let live: Value = serde_json::from_str(live).context("the status in JSON")?;
        let live = live["limits"]["settings"].as_array().into_iter().flatten();
        let live: Vec<&str> = live.filter_map(|row| row[0].as_str()).collect();
        _ = writeln!(
            page,
            "\n## `serve {service}`\n\n| name | value | default | reload | meaning |"
        );
        page.push_str("|---|---|---|---|---|\n");
        for (name, value, text) in options(&help) {
            let (meaning, default) = match text.rsplit_once("[default: ") {
                Some((meaning, rest)) => (meaning.trim(), rest.trim_end_matches(['.', ']'])),
                None => (text.as_str(), ""),
            };
            let reload = if live.contains(&name.as_str()) { "yes" } else { "" };
            let clean = |text: &str| text.replace('|', "\\|").replace('<', "&lt;");
            let (value, default, meaning) = (clean(&value), clean(default), clean(meaning));
            _ = writeln!(page, "| `{name}` | {value} | {default} | {reload} | {meaning} |");
        }
    }
    site.write("reference/settings.md", &page)
}

/// The options in a help, sorted: name, placeholder of the value, and text.
fn options(help: &str) -> Vec<(String, String, String)> {
    let mut all: Vec<(String, String, String)> = Vec::new();
    for line in help.lines() {
        let head = line.trim_start();
        let indent = line.len() - head.len();
        match head.split_once("--").filter(|_| head.starts_with('-') && indent < 8) {
            Some((_, rest)) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let (value, text) = match rest.strip_prefix(' ') {
                    Some(text) => ("", text),
                    None => rest.split_once("  ").unwrap_or((rest, "")),
                };
                let value = value.trim_matches(['<', '>']).to_owned();
                all.push((name.to_owned(), value, text.trim().to_owned()));
            }
            None if indent > 8 => {
                let last = all.last_mut().map(|it| &mut it.2);
                last.into_iter()
                    .for_each(|text| *text = format!("{text} {head}").trim().to_owned());
            }
            None => {}
        }
    }
    all.sort();
    all
}

/// A server with an administration.
struct Served {
    _server: Server,
    door: std::path::PathBuf,
    _scratch: tempfile::TempDir,
}

impl Served {
    fn start(binary: &Path, words: &[&str]) -> anyhow::Result<Served> {
        let scratch = tempfile::tempdir().context("a temporary directory")?;
        let door = scratch.path().join("admin");
        let mut serve = Command::new(binary);
        serve.arg("serve").args(words).args(["--port", "0", "--json", "--admin"]).arg(&door);
        let server = Server::start(serve.current_dir(&scratch))?;
        Ok(Served { _server: server, door, _scratch: scratch })
    }

    fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut client = UnixStream::connect(&self.door).context("reach the administration")?;
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        client.read_to_string(&mut text)?;
        Ok(text)
    }
}

/// A recording of each engine.
fn moves(site: &Site, binary: &Path, all_engines: bool) -> anyhow::Result<()> {
    let mut page = String::from(
        "# Engines, recorded\n\nThree clients trade at a real server under strace. The page plays \
         clients, the kernel's queues, workers and system calls step by step.\n\n",
    );
    let table = said(binary, &["engines"])?;
    let names = table.lines().filter_map(|line| line.split_whitespace().next());
    let known = |name: &&str| {
        *name != "bypass" && crate::root().join(format!("docs/engines/{name}.svg")).exists()
    };
    for name in names.filter(known).filter(|name| all_engines || CHECKED.contains(name)) {
        let path = site.source.join(format!("reference/moves/{name}.html"));
        fs::create_dir_all(path.parent().context("a folder")?)?;
        said(binary, &["explain", name, "--page", &path.display().to_string()])?;
        _ = writeln!(page, "- [`{name}`](moves/{name}.html)");
    }
    site.write("reference/moves.md", &page)
}

/// The results that were kept, with machine, date and commit as their pages state them.
fn results(site: &mut Site) -> anyhow::Result<String> {
    let mut pages = Vec::new();
    find(&crate::root().join("runs"), &mut pages)?;
    let mut list = String::new();
    let mut text =
        String::from("# Results\n\nMeasurements that were kept, each with its command.\n\n");
    for path in pages.iter().filter_map(|it| it.strip_prefix(crate::root()).ok()) {
        let path = path.display().to_string();
        site.page(&path)?;
        let kept = fs::read_to_string(crate::root().join(&path))?;
        let heading = kept.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&path);
        let day = path.trim_start_matches("runs/").get(..10).unwrap_or_default();
        let name = format!("{heading} ({day})");
        let page = super::as_page(&path);
        _ = writeln!(list, "  - [{name}]({page})");
        _ = writeln!(text, "- [{name}](../{page})");
    }
    site.write("reference/results.md", &text)?;
    Ok(format!("- [Results](reference/results.md)\n{list}"))
}

fn find(folder: &Path, pages: &mut Vec<std::path::PathBuf>) -> anyhow::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.flatten().map(|it| it.path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => find(&path, pages)?,
            false if path.extension().is_some_and(|it| it == "md") => pages.push(path),
            false => {}
        }
    }
    Ok(())
}
