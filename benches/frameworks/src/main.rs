//! The API of the example `http-json` on other HTTP libraries: `frameworks-bench NAME PORT` serves
//! `GET /visits` and `POST /visits` on one thread. Two more names serve the market of the bare
//! loops ([`market`]).

mod market;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, service::service_fn};

static VISITS: AtomicU64 = AtomicU64::new(0);

/// Status and body of an answer.
fn answer(method: &str, path: &str) -> (u16, String) {
    let visits = |count: u64| format!("{{\"visits\":{count}}}");
    match (method, path) {
        ("GET", "/visits") => (200, visits(VISITS.load(Ordering::Relaxed))),
        ("POST", "/visits") => (201, visits(VISITS.fetch_add(1, Ordering::Relaxed) + 1)),
        (_, "/visits") => (405, "expected GET or POST\n".into()),
        _ => (404, "expected /visits\n".into()),
    }
}

fn actix(port: u16) -> std::io::Result<()> {
    use actix_web::{App, HttpRequest, HttpResponse, HttpServer, http::StatusCode, rt, web};
    async fn reply(request: HttpRequest) -> HttpResponse {
        let (status, body) = answer(request.method().as_str(), request.path());
        let status = StatusCode::from_u16(status).expect("a status");
        HttpResponse::build(status).content_type("application/json").body(body)
    }
    let app = || App::new().default_service(web::to(reply));
    rt::System::new().block_on(HttpServer::new(app).workers(1).bind(("127.0.0.1", port))?.run())
}

fn ntex(port: u16) -> std::io::Result<()> {
    use ntex::{http::StatusCode, rt, web};
    async fn reply(request: web::HttpRequest) -> web::HttpResponse {
        let (status, body) = answer(request.method().as_str(), request.path());
        let status = StatusCode::from_u16(status).expect("a status");
        web::HttpResponse::build(status).content_type("application/json").body(body)
    }
    let run = async move {
        let app = async || web::App::new().default_service(web::to(reply));
        web::HttpServer::new(app).workers(1).bind(("127.0.0.1", port))?.run().await
    };
    rt::System::new("ntex", rt::DefaultRuntime).block_on(run)
}

fn hyper(port: u16) -> std::io::Result<()> {
    async fn reply(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let method: &Method = request.method();
        let (status, body) = answer(method.as_str(), request.uri().path());
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        let json = hyper::header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
        Ok(response)
    }
    let serve = async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let stream = hyper_util::rt::TokioIo::new(stream);
            let mut http = hyper::server::conn::http1::Builder::new();
            http.pipeline_flush(true);
            tokio::task::spawn_local(async move {
                // A client that leaves in the middle is not a fault of the server.
                let _ = http.serve_connection(stream, service_fn(reply)).await;
            });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, serve)
}

#[derive(Clone)]
struct Mini;

impl may_minihttp::HttpService for Mini {
    fn call(
        &mut self,
        request: may_minihttp::Request,
        response: &mut may_minihttp::Response,
    ) -> std::io::Result<()> {
        let (status, body) = answer(request.method(), request.path());
        let reason = if status == 200 { "OK" } else { "Other" };
        response.status_code(status as usize, reason).header("Content-Type: application/json");
        response.body_vec(body.into_bytes());
        Ok(())
    }
}

fn may(port: u16) -> std::io::Result<()> {
    may::config().set_workers(1);
    let server = may_minihttp::HttpServer(Mini).start(("127.0.0.1", port))?;
    server.join().map_err(|_| std::io::Error::other("the server ended"))
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let names: [(&str, fn(u16) -> std::io::Result<()>); 6] = [
        ("actix", actix),
        ("ntex", ntex),
        ("hyper", hyper),
        ("may", may),
        ("tokio-loop", market::tokio_loop),
        ("may-loop", market::may_loop),
    ];
    let found = words.get(1).and_then(|name| names.iter().find(|(known, _)| known == name));
    let port = words.get(2).and_then(|port| port.parse().ok());
    let (Some((name, serve)), Some(port)) = (found, port) else {
        eprintln!(
            "expected `frameworks-bench actix|ntex|hyper|may PORT`, or `tokio-loop|may-loop PORT \
             STOCKS`"
        );
        std::process::exit(2);
    };
    if let Err(error) = serve(port) {
        eprintln!("{name}: {error}");
        std::process::exit(1);
    }
}
