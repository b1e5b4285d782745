//! A small API over HTTP/1.1: `POST /visits` counts a visit, `GET /visits` answers how many there
//! were. Try it: `curl -d '' http://127.0.0.1:7000/visits`.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;
use serde::Serialize;

share! {
    struct Api {
        visits: Counter,
    }
}

#[derive(Serialize)]
struct Visits {
    visits: u64,
}

fn show(_: &Call<'_>, cx: &Cx<'_, Api>) -> Json<Visits> {
    Json(Visits { visits: cx.state.visits.get() })
}

fn count(_: &Call<'_>, cx: &Cx<'_, Api>) -> (u16, Json<Visits>) {
    (201, Json(Visits { visits: cx.state.visits.add(1) }))
}

fn main() -> ExitCode {
    roundhouse::main(routes().get("/visits", show).post("/visits", count).service())
}
