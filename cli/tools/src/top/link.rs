//! The connection to a server's administration: HTTP/1.1, one request per connection.
//!
//! `top` and `ctl` use it. `running` lists the sockets in the user's folder and keeps those that
//! accept a connection; `named` understands a process number, a path or an address. A request has
//! its own connection, so a server that restarts between two samples is no special case. An answer
//! is accepted only whole: status 200, the announced length, and the schema of this version.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use server::admin::{Place, ServerStatus, folder};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer: a thousand workers take half a megabyte.
const ANSWER_MAX: u64 = 16 << 20;

/// A server's administration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    place: Place,
}

/// The servers with a socket in the usual folder that accept a connection.
pub fn running() -> Vec<Link> {
    let Ok(entries) = fs::read_dir(folder()) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "sock"))
        .collect();
    paths.sort();
    let links = paths.into_iter().map(|path| Link { place: Place::Path(path) });
    links.filter(Link::is_there).collect()
}

impl Link {
    /// The link to the server that `word` names.
    pub fn named(word: &str) -> Result<Link> {
        let place = match word.parse::<u32>() {
            Ok(pid) => Place::Path(folder().join(format!("{pid}.sock"))),
            Err(_) => {
                let word = word.strip_prefix("http://").unwrap_or(word).trim_end_matches('/');
                // A word without a slash can be a path too, because it cannot be anything else.
                let path = || Place::Path(PathBuf::from(word));
                word.parse().ok().filter(|place| *place != Place::None).unwrap_or_else(path)
            }
        };
        let link = Link { place };
        match link.is_there() {
            true => Ok(link),
            false => bail!(
                "expected a roundhouse server at {}, found none that answers; its first line \
                 of output names its `admin`",
                link.name()
            ),
        }
    }

    /// The path or address of the administration.
    pub fn name(&self) -> String {
        match &self.place {
            Place::None => String::new(),
            Place::Path(path) => path.display().to_string(),
            Place::Address(address) => address.to_string(),
        }
    }

    /// A line about the server, for a list to choose from.
    pub fn described(&self) -> String {
        match self.sample() {
            Ok(status) => format!(
                "  {:>8}  {} on {}, {}",
                status.sample.pid,
                status.service,
                status.sample.shape.engine.as_deref().unwrap_or(&status.sample.shape.container),
                status.sample.listening
            ),
            Err(_) => format!("  {}", self.name()),
        }
    }

    /// Whether the server accepts a connection.
    pub fn is_there(&self) -> bool {
        match &self.place {
            Place::None => false,
            Place::Path(path) => UnixStream::connect(path).is_ok(),
            Place::Address(address) => TcpStream::connect_timeout(address, PATIENCE).is_ok(),
        }
    }

    /// The server's present status.
    pub fn sample(&self) -> Result<ServerStatus> {
        let body = self.ask("GET", "status.json")?;
        let status: ServerStatus = serde_json::from_slice(&body).with_context(|| {
            format!("expected the status of a server of this version at {}", self.name())
        })?;
        let schema = engines::status::SCHEMA;
        if status.sample.schema != schema {
            bail!("expected a status of schema {schema}, found {}", status.sample.schema);
        }
        Ok(status)
    }

    /// Sends a command and returns the server's answer.
    pub fn order(&self, order: &str) -> Result<String> {
        let body = self.ask("POST", order)?;
        let answer: serde_json::Value = serde_json::from_slice(&body)?;
        let words = answer["words"].as_array().into_iter().flatten();
        Ok(words.filter_map(|word| word.as_str()).collect::<Vec<_>>().join("; "))
    }

    /// A page of the administration, as text.
    pub fn page(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.ask("GET", name)?).into_owned())
    }

    fn ask(&self, method: &str, path: &str) -> Result<Vec<u8>> {
        let host = match &self.place {
            Place::Address(address) => address.to_string(),
            _ => "localhost".to_owned(),
        };
        let request =
            format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        language::debug!("{method} /{path} to {}", self.name());
        body(&self.exchange(&request)?)
    }

    /// Sends a whole request; returns the whole answer.
    fn exchange(&self, request: &str) -> Result<Vec<u8>> {
        let answer = match &self.place {
            Place::None => bail!("expected a place, found none"),
            Place::Path(path) => {
                let stream = UnixStream::connect(path).with_context(|| self.name())?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                talk(stream, request)
            }
            Place::Address(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                talk(stream, request)
            }
        };
        answer.with_context(|| {
            let name = self.name();
            format!("expected the administration of a server at {name}, found no answer")
        })
    }
}

/// Sends a request and reads until the server closes.
fn talk(mut stream: impl Read + Write, request: &str) -> Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The body of a complete response with status 200.
fn body(answer: &[u8]) -> Result<Vec<u8>> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let end = end.ok_or_else(|| anyhow!("expected an answer over HTTP, found none"))?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let body = &answer[end + 4..];
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        bail!("expected status 200, found {status}: {}", String::from_utf8_lossy(body).trim());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if length == body.len() => Ok(body.to_vec()),
        found => bail!("expected {found:?} bytes, found {}: the answer was cut off", body.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_or_an_error() {
        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
        assert_eq!(body(ok).expect("whole"), b"hi");
        let check = |answer: &[u8], words: &str| {
            let error = body(answer).expect_err("not whole").to_string();
            assert!(error.contains(words), "{error}");
        };
        check(&ok[..ok.len() - 1], "cut off");
        check(b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n", "404: no");
        check(b"", "found none");
    }

    #[test]
    fn a_missing_server_is_named() {
        for word in ["999999999", "/nowhere/at.sock", "nowhere.sock"] {
            let error = Link::named(word).expect_err("no server").to_string();
            assert!(error.contains("found none that answers"), "{error}");
        }
    }
}
