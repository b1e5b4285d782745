//! HTTP by route: the method and the path of a request choose the function that answers it.
//!
//! [`Routes`] lists paths and functions. A function gets a [`Call`], which takes typed values from
//! the request, and returns anything that is a reply ([`IntoReply`]): text, [`Json`], a status with
//! either, a `Result`. Layers are functions around all of them. A path of fixed text is found by
//! its length and wins; `matchit` finds those with parts that differ. A path that no route has gets
//! 404, a method that the path lacks 405, a function that panics 500.
//!
//! [`Routes::service`] makes an [`Http`] of the list, which does the rest of the protocol.

use std::panic::{AssertUnwindSafe, catch_unwind};

use matchit::Router;
use seam::{Cx, Share};
use wire::websocket::WebSocketOptions;

use crate::call::{Call, Parts};
use crate::http::{Answer, Http, HttpRequest, HttpResponse};
use crate::messages::ReplyBuffer;
use crate::reply::{HttpError, IntoReply};
use crate::socket::Socket;
use crate::stream::Flow;
use crate::upload::Upload;

/// The maker of a streamed body: it appends a piece and says what comes after it.
pub(crate) type Source<T> =
    Box<dyn FnMut(&Cx<'_, T>, &mut ReplyBuffer<'_>) -> Flow + Send + 'static>;
type Now<T> = Box<dyn Fn(&Call<'_>, &Cx<'_, T>, &mut HttpResponse) + Send + Sync>;
type Slow<T> = Box<dyn Fn(&Call<'_>, &T, &mut HttpResponse) + Send + Sync>;
/// The begin of a conversation that is more than a request and its reply, or its refusal.
type Begun<B> = Result<B, HttpError>;
type Begin<T, B> = Box<dyn Fn(&Call<'_>, &Cx<'_, T>) -> Begun<B> + Send + Sync>;
type Layer<T> = Box<dyn Fn(&Call<'_>, &T, &mut HttpResponse, Inner<'_>) + Send + Sync>;

enum Endpoint<T> {
    Now(Now<T>),
    Slow(Slow<T>),
    Stream(&'static str, Begin<T, Pieces<T>>),
    /// With the longest body, in bytes.
    Upload(u64, Begin<T, Upload<T>>),
    Socket(Begin<T, Socket<T>>),
}

/// The functions of a path, by method.
type Methods<T> = Vec<(&'static str, Endpoint<T>)>;

/// The routes of a service with the shared state `T`.
///
/// ```
/// use roundhouse::prelude::*;
///
/// share! {
///     pub struct Todos {
///         texts: Map<u64, Bytes<64>, 100>,
///     }
/// }
///
/// fn read(call: &Call<'_>, cx: &Cx<'_, Todos>) -> Result<String, HttpError> {
///     let id = call.param::<u64>("id")?;
///     let text = cx.state.texts.get(&id);
///     let text = text.ok_or_else(|| HttpError::new(404, format!("expected a todo, found {id}")))?;
///     Ok(String::from_utf8_lossy(&text).into_owned())
/// }
///
/// fn write(call: &Call<'_>, cx: &Cx<'_, Todos>) -> Result<u16, HttpError> {
///     let text = Bytes::new(call.body).ok_or_else(|| HttpError::new(413, "expected 64 bytes"))?;
///     cx.state.texts.insert(call.param("id")?, text)?;
///     Ok(201)
/// }
///
/// let mut service = routes().get("/todo/{id}", read).put("/todo/{id}", write).service();
/// service.dated = false; // A test that compares bytes wants none that differ.
/// let script = r"
/// >| PUT /todo/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\ntea
/// <| HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n
/// >| GET /todo/7 HTTP/1.1\r\nHost: a\r\n\r\n
/// <| HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\ntea
/// ";
/// roundhouse::sim::check(&service, script, 20);
/// ```
pub struct Routes<T> {
    /// The paths with parts that differ.
    paths: Router<usize>,
    /// The other paths, which win over those, by length.
    fixed: Vec<Vec<usize>>,
    endpoints: Vec<(String, Methods<T>)>,
    layers: Vec<Layer<T>>,
    /// The pages that may open WebSockets.
    origins: WebSocketOptions,
    keeps_state: bool,
    pub(crate) takes_uploads: bool,
    pub(crate) has_sockets: bool,
}

/// A service without routes yet.
pub fn routes<T: Share>() -> Routes<T> {
    Routes {
        paths: Router::new(),
        fixed: Vec::new(),
        endpoints: Vec::new(),
        layers: Vec::new(),
        origins: WebSocketOptions::default(),
        keeps_state: false,
        takes_uploads: false,
        has_sockets: false,
    }
}

/// A function for each of these methods.
macro_rules! methods {
    ($($name:ident $method:literal)+) => {$(
        #[doc = concat!("Answers `", $method, "` of a path by `answer`.")]
        ///
        /// # Panics
        /// As [`Routes::on`].
        #[must_use]
        pub fn $name<R: IntoReply>(
            self,
            path: &str,
            answer: impl Fn(&Call<'_>, &Cx<'_, T>) -> R + Send + Sync + 'static,
        ) -> Self {
            self.on($method, path, answer)
        }
    )+};
}

impl<T: Share> Routes<T> {
    methods! { get "GET" post "POST" put "PUT" patch "PATCH" delete "DELETE" }

    /// Answers a method of a path by `answer`. `/todo/{id}` has a part that differs
    /// ([`Call::param`]), `/files/{*rest}` a rest of at least one part. The function of GET answers
    /// HEAD too, without the body; OPTIONS is answered without a function.
    ///
    /// # Panics
    /// If the path is malformed, or the method has a function already.
    #[must_use]
    pub fn on<R: IntoReply>(
        self,
        method: &'static str,
        path: &str,
        answer: impl Fn(&Call<'_>, &Cx<'_, T>) -> R + Send + Sync + 'static,
    ) -> Self {
        let captures = size_of_val(&answer) > 0;
        let now: Now<T> = Box::new(move |call, cx, response| answer(call, cx).put(call, response));
        self.add(method, path, Endpoint::Now(now), captures)
    }

    /// [`Routes::on`], for a function that may block: it runs on a helper thread of the engine, and
    /// the connection's later requests wait for it. Other connections do not.
    ///
    /// # Panics
    /// As [`Routes::on`].
    #[must_use]
    pub fn offload<R: IntoReply>(
        self,
        method: &'static str,
        path: &str,
        answer: impl Fn(&Call<'_>, &T) -> R + Send + Sync + 'static,
    ) -> Self {
        let captures = size_of_val(&answer) > 0;
        let slow: Slow<T> =
            Box::new(move |call, state, response| answer(call, state).put(call, response));
        self.add(method, path, Endpoint::Slow(slow), captures)
    }

    /// Answers GET of a path with a body that is made piece by piece, of media type `kind`. `begin`
    /// returns the maker of the pieces, which is asked for the next one while the output has room.
    /// Server-sent events are such a body of the type `text/event-stream`
    /// ([`ReplyBuffer::event`]).
    ///
    /// ```
    /// use roundhouse::prelude::*;
    ///
    /// fn count(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Pieces<()>, HttpError> {
    ///     let mut number = 0;
    ///     Ok(Pieces::by(move |_, piece| {
    ///         number += 1;
    ///         piece.event(number.to_string());
    ///         if number < 3 { Flow::More } else { Flow::End }
    ///     }))
    /// }
    ///
    /// let service = routes().stream("/count", "text/event-stream", count).service();
    /// ```
    ///
    /// # Panics
    /// As [`Routes::on`].
    #[must_use]
    pub fn stream(
        self,
        path: &str,
        kind: &'static str,
        begin: impl Fn(&Call<'_>, &Cx<'_, T>) -> Begun<Pieces<T>> + Send + Sync + 'static,
    ) -> Self {
        let captures = size_of_val(&begin) > 0;
        self.add("GET", path, Endpoint::Stream(kind, Box::new(begin)), captures)
    }

    /// Takes the body of a request piece by piece, up to `longest` bytes; a longer one gets 413.
    /// `begin` sees the head, refuses it or returns the taker of the pieces. [`Http::patience`]
    /// counts for each [`Http::body_max`] bytes.
    ///
    /// ```
    /// use roundhouse::prelude::*;
    ///
    /// fn count(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Upload<()>, HttpError> {
    ///     let add = |_: &Cx<'_, ()>, sum: &mut u64, piece: &[u8]| {
    ///         *sum += piece.len() as u64;
    ///         Ok(Flow::More)
    ///     };
    ///     Ok(Upload::fold(0, add, |_, sum| sum.to_string()))
    /// }
    ///
    /// let mut service = routes().upload("PUT", "/file", 1 << 40, count).service();
    /// service.dated = false;
    /// let script = r"
    /// >| PUT /file HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello
    /// <| HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\n\r\n5
    /// ";
    /// roundhouse::sim::check(&service, script, 20);
    /// ```
    ///
    /// # Panics
    /// As [`Routes::on`].
    #[must_use]
    pub fn upload(
        mut self,
        method: &'static str,
        path: &str,
        longest: u64,
        begin: impl Fn(&Call<'_>, &Cx<'_, T>) -> Begun<Upload<T>> + Send + Sync + 'static,
    ) -> Self {
        self.takes_uploads = true;
        let captures = size_of_val(&begin) > 0;
        self.add(method, path, Endpoint::Upload(longest, Box::new(begin)), captures)
    }

    /// Makes GET of a path a WebSocket (RFC 6455). `begin` sees the request after the layers,
    /// refuses it or returns the function of the connection. Pages of the same address, of
    /// `localhost` and of [`Routes::cors`] may connect, and programs. A message has at most
    /// [`Http::body_max`] bytes.
    ///
    /// ```
    /// use roundhouse::prelude::*;
    ///
    /// fn echo(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Socket<()>, HttpError> {
    ///     Ok(Socket::by(|_, event, reply| {
    ///         if let SocketEvent::Text(text) = event {
    ///             reply.text(text);
    ///         }
    ///     }))
    /// }
    ///
    /// let service = routes().get("/", |_, _| "a page").websocket("/echo", echo).service();
    /// ```
    ///
    /// # Panics
    /// As [`Routes::on`].
    #[must_use]
    pub fn websocket(
        mut self,
        path: &str,
        begin: impl Fn(&Call<'_>, &Cx<'_, T>) -> Begun<Socket<T>> + Send + Sync + 'static,
    ) -> Self {
        self.has_sockets = true;
        let captures = size_of_val(&begin) > 0;
        self.add("GET", path, Endpoint::Socket(Box::new(begin)), captures)
    }

    /// Puts a function around all routes, those that are not found too; the last one is outermost.
    /// It calls `inner` for the reply of the rest, or answers by itself.
    ///
    /// ```
    /// use roundhouse::prelude::*;
    ///
    /// fn login(call: &Call<'_>, _: &(), response: &mut HttpResponse, inner: Inner<'_>) {
    ///     match call.field("Authorization") {
    ///         Some(b"Bearer open-sesame") => inner.run(response),
    ///         _ => response.status(401).text("expected a token\n"),
    ///     }
    /// }
    ///
    /// let service = routes().get("/", |_, _| "secret\n").layer(login).service();
    /// ```
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(&Call<'_>, &T, &mut HttpResponse, Inner<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.keeps_state |= size_of_val(&layer) > 0;
        self.layers.push(Box::new(layer));
        self
    }

    /// Lets pages of `origin` (such as `https://example.org`, or `*`) call the routes and open
    /// WebSockets: answers preflight requests and names the origin in each reply (Fetch standard,
    /// CORS protocol).
    #[must_use]
    pub fn cors(mut self, origin: &'static str) -> Self {
        let layer = move |call: &Call<'_>, _: &T, response: &mut HttpResponse, inner: Inner<'_>| {
            inner.run(response);
            response.field("Access-Control-Allow-Origin", origin).field("Vary", "Origin");
            if call.method == "OPTIONS" {
                let asked = call.field("Access-Control-Request-Headers").unwrap_or_default();
                let methods = "GET, HEAD, POST, PUT, PATCH, DELETE";
                response
                    .field("Access-Control-Allow-Methods", methods)
                    .field("Access-Control-Allow-Headers", String::from_utf8_lossy(asked));
            }
        };
        self.layers.push(Box::new(layer));
        self.origins.origins.push(origin.to_owned());
        self
    }

    /// The service.
    pub fn service(self) -> Http<T> {
        let keeps_state = self.keeps_state;
        Http::new(Answer::Routes(Box::new(self)), keeps_state)
    }

    fn add(
        mut self,
        method: &'static str,
        path: &str,
        endpoint: Endpoint<T>,
        captures: bool,
    ) -> Self {
        self.keeps_state |= captures;
        let known = self.endpoints.iter().position(|(known, _)| known == path);
        let at = known.unwrap_or_else(|| {
            let next = self.endpoints.len();
            if !path.contains(['{', '}']) {
                self.fixed.resize_with(self.fixed.len().max(path.len() + 1), Vec::new);
                self.fixed[path.len()].push(next);
            } else if let Err(why) = self.paths.insert(path, next) {
                panic!("expected a path such as `/todo/{{id}}`, found `{path}`: {why}");
            }
            self.endpoints.push((path.to_owned(), Vec::new()));
            next
        });
        let methods = &mut self.endpoints[at].1;
        let is_new = methods.iter().all(|(known, _)| *known != method);
        assert!(is_new, "expected one function for {method} {path}, found a second");
        methods.push((method, endpoint));
        self
    }

    /// The longest body of a request whose route takes it piece by piece.
    pub(crate) fn upload_room(&self, request: &HttpRequest<'_>) -> Option<u64> {
        match self.find(request, &mut None) {
            Found::Endpoint(Endpoint::Upload(room, _)) => Some(*room),
            _ => None,
        }
    }

    /// The reply after the last piece of a body.
    pub(crate) fn end_upload(
        &self,
        cx: &Cx<'_, T>,
        request: HttpRequest<'_>,
        (upload, taken): (Upload<T>, Result<(), HttpError>),
        response: &mut HttpResponse,
    ) {
        let mut parts = None;
        self.find(&request, &mut parts);
        let call = Call::new(request, &parts);
        guard(&call, response, |response| match taken {
            Ok(()) => upload.0.end(cx, &call, response),
            Err(error) => error.put(&call, response),
        });
    }

    /// Makes a WebSocket of a request, or says why it does not become one.
    fn shake_hands(
        &self,
        call: &Call<'_>,
        cx: &Cx<'_, T>,
        begin: &Begin<T, Socket<T>>,
        response: &mut HttpResponse,
    ) -> Option<Socket<T>> {
        let own = WebSocketOptions::default();
        let accepted = self.origins.accept(call.head).or_else(|_| own.accept(call.head));
        let accepted = accepted.map_err(|bad| HttpError::new(bad.status.0, bad.why));
        match accepted.and_then(|accept| Ok((accept, begin(call, cx)?))) {
            Ok((accept, socket)) => {
                response.switch(&accept);
                Some(socket)
            }
            Err(error) => {
                error.put(call, response);
                if response.status.0 == 426 {
                    response.field("Upgrade", "websocket").field("Sec-WebSocket-Version", "13");
                }
                None
            }
        }
    }

    /// The function for a request, and the parts of its path that differ.
    #[inline]
    fn find<'a>(&'a self, request: &HttpRequest<'a>, parts: &mut Parts<'a>) -> Found<'a, T> {
        let path = request.path;
        let mut fixed = self.fixed.get(path.len()).into_iter().flatten();
        let fixed = fixed.find(|at| self.endpoints[**at].0 == path);
        let Some(at) = fixed.or_else(|| self.match_parts(path, parts)) else {
            return Found::Nothing;
        };
        let (_, methods) = &self.endpoints[*at];
        match methods.iter().find(|(method, _)| *method == request.method) {
            Some((_, endpoint)) => Found::Endpoint(endpoint),
            None => Found::Methods(methods),
        }
    }

    #[inline(never)]
    fn match_parts<'a>(&'a self, path: &'a str, parts: &mut Parts<'a>) -> Option<&'a usize> {
        let matched = self.paths.at(path).ok()?;
        *parts = Some(matched.params);
        Some(matched.value)
    }

    /// Answers a request, or says who does.
    #[inline]
    pub(crate) fn answer(
        &self,
        cx: &Cx<'_, T>,
        request: HttpRequest<'_>,
        response: &mut HttpResponse,
    ) -> Routed<T> {
        let mut parts = None;
        let found = self.find(&request, &mut parts);
        let call = Call::new(request, &parts);
        let mut routed = Routed::Answered;
        match found {
            Found::Endpoint(Endpoint::Slow(_)) => return Routed::Slow,
            Found::Endpoint(Endpoint::Now(answer)) => {
                self.around(&call, cx.state, response, |response| answer(&call, cx, response));
            }
            Found::Endpoint(Endpoint::Stream(kind, begin)) => {
                self.around(&call, cx.state, response, |response| match begin(&call, cx) {
                    Ok(pieces) => {
                        response.content(kind);
                        routed = Routed::Stream(pieces.0);
                    }
                    Err(error) => error.put(&call, response),
                });
            }
            Found::Endpoint(Endpoint::Upload(room, begin)) => {
                self.around(&call, cx.state, response, |response| match begin(&call, cx) {
                    Ok(upload) => routed = Routed::Upload(upload, *room),
                    Err(error) => error.put(&call, response),
                });
            }
            Found::Endpoint(Endpoint::Socket(begin)) => {
                self.around(&call, cx.state, response, |response| {
                    let socket = self.shake_hands(&call, cx, begin, response);
                    routed = socket.map_or(Routed::Answered, Routed::Socket);
                });
            }
            other => self.around(&call, cx.state, response, |response| {
                other.refuse(&call, response);
            }),
        }
        routed
    }

    /// Answers a slow request on a helper thread.
    pub(crate) fn work(&self, state: &T, request: HttpRequest<'_>, response: &mut HttpResponse) {
        let mut parts = None;
        let found = self.find(&request, &mut parts);
        let call = Call::new(request, &parts);
        if let Found::Endpoint(Endpoint::Slow(answer)) = found {
            self.around(&call, state, response, |response| answer(&call, state, response));
        }
    }

    /// Calls `last` inside of the layers.
    #[inline]
    fn around(
        &self,
        call: &Call<'_>,
        state: &T,
        response: &mut HttpResponse,
        mut last: impl FnMut(&mut HttpResponse),
    ) {
        guard(call, response, |response| match &*self.layers {
            [] => last(response),
            layers => descend(layers, call, state, response, &mut last),
        });
    }
}

/// Calls functions of a route. A panic gets 500; its place is on stderr.
#[inline]
fn guard(call: &Call<'_>, response: &mut HttpResponse, run: impl FnOnce(&mut HttpResponse)) {
    if catch_unwind(AssertUnwindSafe(|| run(response))).is_err() {
        engines::eprintln!("{} {}: the route's function panicked: 500", call.method, call.path);
        response.clear();
        response.status(500).text("internal error\n");
    }
}

/// Calls the outermost of `layers` with the rest as its next.
fn descend<T>(
    layers: &[Layer<T>],
    call: &Call<'_>,
    state: &T,
    response: &mut HttpResponse,
    last: &mut dyn FnMut(&mut HttpResponse),
) {
    match layers.split_last() {
        None => last(response),
        Some((layer, inner)) => {
            let mut rest = |response: &mut HttpResponse| {
                descend(inner, call, state, response, last);
            };
            layer(call, state, response, Inner(&mut rest));
        }
    }
}

/// The way of a request.
pub(crate) enum Routed<T> {
    Answered,
    /// A helper thread answers it ([`Routes::work`]).
    Slow,
    /// The head is in the response; this makes the body.
    Stream(Source<T>),
    /// The response has the fields of the layers; this takes the body, up to a number of bytes.
    Upload(Upload<T>, u64),
    /// The connection becomes a WebSocket.
    Socket(Socket<T>),
}

enum Found<'a, T> {
    Endpoint(&'a Endpoint<T>),
    /// The path has other methods.
    Methods(&'a Methods<T>),
    Nothing,
}

impl<T> Found<'_, T> {
    #[cold]
    fn refuse(&self, call: &Call<'_>, response: &mut HttpResponse) {
        let Found::Methods(methods) = self else {
            let Call { request: HttpRequest { path, .. }, .. } = call;
            return response.status(404).text(format!("expected a known path, found {path}\n"));
        };
        let mut names = Vec::new();
        for (name, _) in *methods {
            names.push(*name);
            if *name == "GET" {
                names.push("HEAD");
            }
        }
        let allowed = [&*names, &["OPTIONS"]].concat().join(", ");
        if call.method == "OPTIONS" {
            response.status(204).field("Allow", allowed);
        } else {
            let why = format!("expected {allowed}, found {}\n", call.method);
            response.status(405).field("Allow", allowed).text(why);
        }
    }
}

/// The rest of a request's way: further layers, then the route's function.
pub struct Inner<'a>(&'a mut dyn FnMut(&mut HttpResponse));

impl Inner<'_> {
    /// Fills `response` by the rest.
    pub fn run(self, response: &mut HttpResponse) {
        (self.0)(response);
    }
}

/// The maker of a streamed body.
pub struct Pieces<T>(Source<T>);

impl<T> Pieces<T> {
    /// Pieces that `next` appends, one a call; it returns what comes after the piece.
    pub fn by(
        next: impl FnMut(&Cx<'_, T>, &mut ReplyBuffer<'_>) -> Flow + Send + 'static,
    ) -> Pieces<T> {
        Pieces(Box::new(next))
    }
}
