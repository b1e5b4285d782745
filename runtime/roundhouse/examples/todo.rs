//! A list of things to do, as JSON over HTTP, with a login and live events:
//!
//! ```sh
//! cargo run -r -p roundhouse-runtime --example todo -- --port 7000 &
//! auth='Authorization: Bearer open-sesame'
//! curl -H "$auth" --json '{"text":"tea"}' http://127.0.0.1:7000/todo    # {"id":1,"text":"tea"}
//! curl -H "$auth" http://127.0.0.1:7000/todo/1
//! curl -H "$auth" -N http://127.0.0.1:7000/events                       # data: 1 todos
//! roundhouse load http://127.0.0.1:7000 --flow runtime/roundhouse/examples/todo.toml
//! ```
//!
//! With `FORGET=1` in its environment it forgets what it says it keeps, and a load test finds out.

#![forbid(unsafe_code)]

use std::sync::LazyLock;

use roundhouse::prelude::*;
use serde::{Deserialize, Serialize};

share! {
    struct Todos {
        last: Counter,
        texts: Map<u64, Bytes<200>, 1000>,
    }
}

static FORGETS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FORGET").is_some());

#[derive(Deserialize)]
struct Login {
    password: String,
}

#[derive(Deserialize)]
struct New {
    text: String,
}

#[derive(Serialize)]
struct Todo {
    id: u64,
    text: String,
}

fn create(call: &Call<'_>, cx: &Cx<'_, Todos>) -> Result<(u16, Json<Todo>), HttpError> {
    let New { text } = call.json()?;
    let too_long = || HttpError::new(413, "expected a text of at most 200 bytes");
    let bytes = Bytes::new(&text).ok_or_else(too_long)?;
    let id = cx.state.last.add(1);
    if !*FORGETS {
        cx.state.texts.insert(id, bytes)?;
    }
    Ok((201, Json(Todo { id, text })))
}

fn read(call: &Call<'_>, cx: &Cx<'_, Todos>) -> Result<Option<Json<Todo>>, HttpError> {
    let id = call.param("id")?;
    let text = cx.state.texts.get(&id);
    Ok(text.map(|text| Json(Todo { id, text: text.to_string() })))
}

/// The last hundred.
fn list(_: &Call<'_>, cx: &Cx<'_, Todos>) -> Json<Vec<Todo>> {
    let last = cx.state.last.get();
    let ids = last.saturating_sub(99).max(1)..=last;
    let todo = |id| {
        let text = cx.state.texts.get(&id)?.to_string();
        Some(Todo { id, text })
    };
    Json(ids.filter_map(todo).collect())
}

fn remove(call: &Call<'_>, cx: &Cx<'_, Todos>) -> Result<u16, HttpError> {
    let id = call.param::<u64>("id")?;
    Ok(if cx.state.texts.remove(&id) { 204 } else { 404 })
}

/// Tells a page how many todos were ever made: at once, and after each change.
fn events(_: &Call<'_>, _: &Cx<'_, Todos>) -> Result<Pieces<Todos>, HttpError> {
    let mut told = None;
    let mut quiet = 0;
    Ok(Pieces::<Todos>::by(move |cx, piece| {
        let count = cx.state.last.get();
        quiet += 1;
        if told != Some(count) {
            (told, quiet) = (Some(count), 0);
            piece.event(format!("{count} todos"));
        } else if quiet % 50 == 0 {
            piece.event(""); // Finds out that the page is gone.
        }
        Flow::At(cx.now + Duration::from_millis(100))
    }))
}

/// The password opens the door: for programs as a token, for browsers as a cookie.
fn login(call: &Call<'_>, _: &Todos, response: &mut HttpResponse, inner: Inner<'_>) {
    let has_token = call.field("Authorization") == Some(b"Bearer open-sesame");
    if (call.method, call.path) == ("POST", "/login") {
        match call.json() {
            Ok(Login { password }) if password == "sesame" => {
                response.field("Set-Cookie", "token=open-sesame; Path=/; HttpOnly");
                response.content("application/json").put("{\"token\":\"open-sesame\"}\n");
            }
            _ => response.status(401).text("expected the password\n"),
        }
    } else if has_token || call.field("Cookie") == Some(b"token=open-sesame") {
        inner.run(response);
    } else {
        response.status(401).field("WWW-Authenticate", "Bearer").text("expected a token\n");
    }
}

fn main() -> ExitCode {
    let service = routes()
        .get("/todo", list)
        .post("/todo", create)
        .get("/todo/{id}", read)
        .delete("/todo/{id}", remove)
        .stream("/events", "text/event-stream", events)
        .layer(login)
        .service();
    roundhouse::main(service)
}
