//! One page on hyper and tokio: a task for each connection, HTTP/1.1 with pipelining.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use tokio::net::TcpStream;

pub(super) async fn client(peer: TcpStream, body: Bytes) -> hyper::Result<()> {
    let answer = service_fn(move |request| {
        let reply = reply(&request, &body);
        async move { Ok::<_, Infallible>(reply) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).pipeline_flush(true);
    http.serve_connection(TokioIo::new(peer), answer).await
}

fn reply(request: &Request<Incoming>, body: &Bytes) -> Response<Full<Bytes>> {
    let known = request.uri().path() == "/" || request.uri().path() == "/index.html";
    let asks = request.method() == Method::GET || request.method() == Method::HEAD;
    let status = match (known, asks) {
        (true, true) => StatusCode::OK,
        (false, true) => StatusCode::NOT_FOUND,
        _ => StatusCode::METHOD_NOT_ALLOWED,
    };
    let body = if status == StatusCode::OK { body.clone() } else { Bytes::new() };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let html = header::HeaderValue::from_static("text/html");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}
