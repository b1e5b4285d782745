//! Slow functions that talk to other servers: pages are counted in redis, notes lie in a table of
//! PostgreSQL, and texts come from another HTTP server. Helper threads wait for them, so other
//! connections do not.
//!
//! ```sh
//! redis-server --port 6379 & python3 -m http.server 8000 &
//! REDIS=127.0.0.1:6379 API=http://127.0.0.1:8000 POSTGRES=127.0.0.1:5432 \
//!     cargo run -r -p roundhouse-runtime --example outside -- --port 7000 &
//! curl -X POST http://127.0.0.1:7000/visits/home     # 1, then 2
//! curl http://127.0.0.1:7000/texts/README.md
//! curl --json '{"text":"tea"}' http://127.0.0.1:7000/notes && curl http://127.0.0.1:7000/notes
//! ```

#![forbid(unsafe_code)]

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;

use roundhouse::prelude::*;
use serde::{Deserialize, Serialize};

type Redis = BufReader<TcpStream>;

/// Each process has a pool; its connections are made when they are needed first.
static REDIS: Pool<Redis, io::Error> = Pool::new(8, || {
    let address = env::var("REDIS").unwrap_or_else(|_| "127.0.0.1:6379".to_owned());
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(BufReader::new(stream))
});

static DATABASE: Pool<Database, io::Error> = Pool::new(8, Database::connect);

/// A client of PostgreSQL with what this example needs (protocol 3.0, no password). A service takes
/// the crate `postgres`: `Pool<postgres::Client, postgres::Error>`.
struct Database(BufReader<TcpStream>);

/// The columns of a row, as text.
type Row = Vec<String>;

impl Database {
    fn connect() -> io::Result<Database> {
        let address = env::var("POSTGRES").unwrap_or_else(|_| "127.0.0.1:5432".to_owned());
        let mut database = Database(BufReader::new(TcpStream::connect(address)?));
        let body = b"\0\x03\0\0user\0postgres\0\0";
        let len = 4 + body.len() as u32;
        database.0.get_mut().write_all(&[&len.to_be_bytes()[..], body].concat())?;
        database.rows()?;
        let notes = "CREATE TABLE IF NOT EXISTS notes (id BIGSERIAL PRIMARY KEY, text TEXT)";
        database.query(notes, &[])?;
        Ok(database)
    }

    /// Sends a statement and its values: the messages Parse, Bind, Execute, Sync.
    fn query(&mut self, statement: &str, values: &[&str]) -> io::Result<Vec<Row>> {
        let mut bind = [&[0; 4], &(values.len() as u16).to_be_bytes()[..]].concat();
        for value in values {
            bind.extend_from_slice(&(value.len() as u32).to_be_bytes());
            bind.extend_from_slice(value.as_bytes());
        }
        bind.extend_from_slice(&[0; 2]);
        let parse = format!("\0{statement}\0\0\0").into_bytes();
        let mut sent = Vec::new();
        for (kind, body) in [(b'P', parse), (b'B', bind), (b'E', vec![0; 5]), (b'S', Vec::new())] {
            sent.push(kind);
            sent.extend_from_slice(&(4 + body.len() as u32).to_be_bytes());
            sent.extend_from_slice(&body);
        }
        self.0.get_mut().write_all(&sent)?;
        self.rows()
    }

    /// Reads rows until the server is ready for the next statement.
    fn rows(&mut self) -> io::Result<Vec<Row>> {
        let (mut rows, mut failure) = (Vec::new(), None);
        loop {
            let (mut kind, mut len) = ([0], [0; 4]);
            self.0.read_exact(&mut kind)?;
            self.0.read_exact(&mut len)?;
            let mut body = vec![0; (u32::from_be_bytes(len) as usize).saturating_sub(4)];
            self.0.read_exact(&mut body)?;
            match kind[0] {
                b'D' => rows.push(row(&body)),
                b'E' => failure = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                b'Z' => return failure.map_or(Ok(rows), |why| Err(io::Error::other(why))),
                _ => {}
            }
        }
    }
}

/// Reads columns after their number: each after its length; a negative one is NULL.
fn row(body: &[u8]) -> Row {
    let (mut columns, mut rest) = (Row::new(), body.get(2..).unwrap_or_default());
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = usize::try_from(i32::from_be_bytes(*len)).unwrap_or(0).min(after.len());
        columns.push(String::from_utf8_lossy(&after[..len]).into_owned());
        rest = &after[len..];
    }
    columns
}

#[derive(Deserialize, Serialize)]
struct Note {
    #[serde(default)]
    id: String,
    text: String,
}

/// Has a pool of connections inside.
static API: LazyLock<ureq::Agent> = LazyLock::new(ureq::Agent::new_with_defaults);

/// Sends a command of redis (RESP) and returns the number that it answers.
fn command(redis: &mut Redis, words: &[&str]) -> io::Result<u64> {
    let mut sent = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| sent += &format!("${}\r\n{word}\r\n", word.len()));
    redis.get_mut().write_all(sent.as_bytes())?;
    let mut line = String::new();
    redis.read_line(&mut line)?;
    let number = line.strip_prefix(':').and_then(|number| number.trim_end().parse().ok());
    number.ok_or_else(|| io::Error::other(format!("expected a number, found {line:?}")))
}

fn visit(call: &Call<'_>, _: &()) -> Result<String, HttpError> {
    let page = call.param::<String>("page")?;
    let count = REDIS.with(|redis| command(redis, &["INCR", &page]))?;
    Ok(count.to_string())
}

fn text(call: &Call<'_>, _: &()) -> Result<String, HttpError> {
    let base = env::var("API").unwrap_or_else(|_| "http://127.0.0.1:8000".to_owned());
    let name = call.param::<String>("name")?;
    let mut found = API.get(format!("{base}/{name}")).call()?;
    Ok(found.body_mut().read_to_string()?)
}

fn write(call: &Call<'_>, _: &()) -> Result<(u16, Json<Note>), HttpError> {
    let Note { text, .. } = call.json()?;
    let insert = "INSERT INTO notes (text) VALUES ($1) RETURNING id";
    let rows = DATABASE.with(|database| database.query(insert, &[&text]))?;
    let id = rows.into_iter().flatten().next().unwrap_or_default();
    Ok((201, Json(Note { id, text })))
}

fn list(_: &Call<'_>, _: &()) -> Result<Json<Vec<Note>>, HttpError> {
    let select = "SELECT id, text FROM notes ORDER BY id";
    let rows = DATABASE.with(|database| database.query(select, &[]))?;
    let notes = rows.into_iter().filter_map(|row| row.try_into().ok());
    Ok(Json(notes.map(|[id, text]: [String; 2]| Note { id, text }).collect()))
}

fn main() -> ExitCode {
    let service = routes()
        .offload("POST", "/notes", write)
        .offload("GET", "/notes", list)
        .offload("POST", "/visits/{page}", visit)
        .offload("GET", "/texts/{name}", text)
        .service();
    roundhouse::main(service)
}
