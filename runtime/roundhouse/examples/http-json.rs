//! A small API over HTTP/1.1: `POST /visits` counts a visit, `GET /visits` tells how many there
//! were. Try it: `curl -d '' http://127.0.0.1:7000/visits`.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

share! {
    struct Api {
        visits: Counter,
    }
}

fn answer(cx: &Cx<'_, Api>, request: HttpRequest<'_>, response: &mut HttpResponse) {
    let visits = &cx.state.visits;
    match (request.method, request.path) {
        ("GET", "/visits") => show(response, visits.get()),
        ("POST", "/visits") => show(response.status(201), visits.add(1)),
        (_, "/visits") => {
            response.status(405).field("Allow", "GET, HEAD, POST").text("expected GET or POST\n");
        }
        _ => response.status(404).text("expected /visits\n"),
    }
}

fn show(response: &mut HttpResponse, visits: u64) {
    response.content("application/json").put("{\"visits\":").number(visits).put("}\n");
}

fn main() -> ExitCode {
    roundhouse::main(http_with(answer))
}
