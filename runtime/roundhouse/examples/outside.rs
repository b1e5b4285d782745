//! Slow functions that talk to other servers: pages are counted in redis, and texts come from
//! another HTTP server. Helper threads wait for them, so other connections do not.
//!
//! ```sh
//! redis-server --port 6379 & python3 -m http.server 8000 &
//! REDIS=127.0.0.1:6379 API=http://127.0.0.1:8000 \
//!     cargo run -r -p roundhouse-runtime --example outside -- --port 7000 &
//! curl -X POST http://127.0.0.1:7000/visits/home     # 1, then 2
//! curl http://127.0.0.1:7000/texts/README.md
//! ```

#![forbid(unsafe_code)]

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::LazyLock;

use roundhouse::prelude::*;

type Redis = BufReader<TcpStream>;

/// Each process has a pool; its connections are made when they are needed first.
static REDIS: Pool<Redis, io::Error> = Pool::new(8, || {
    let address = env::var("REDIS").unwrap_or_else(|_| "127.0.0.1:6379".to_owned());
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(BufReader::new(stream))
});

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

fn main() -> ExitCode {
    let service = routes()
        .offload("POST", "/visits/{page}", visit)
        .offload("GET", "/texts/{name}", text)
        .service();
    roundhouse::main(service)
}
