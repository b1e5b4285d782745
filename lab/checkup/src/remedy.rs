//! Remedies against findings, for servers whose directives are known.

/// A trial, the beginning of a server's name (empty: any), and the remedy.
const REMEDIES: &[(&str, &str, &str)] = &[
    ("backlog", "nginx", "listen … backlog=4096; and net.core.somaxconn"),
    ("backlog", "Apache", "ListenBacklog 4096, and net.core.somaxconn"),
    ("backlog", "haproxy", "bind … backlog 4096, and net.core.somaxconn"),
    ("backlog", "gunicorn", "--backlog 4096, and net.core.somaxconn"),
    ("backlog", "node", "server.listen({port, backlog: 4096}), and net.core.somaxconn"),
    ("backlog", "SimpleHTTP", "request_queue_size = 1024 in a subclass of the server"),
    ("backlog", "BaseHTTP", "request_queue_size = 1024 in a subclass of the server"),
    ("backlog", "", "listen(fd, 4096), and net.core.somaxconn"),
    ("nodelay", "SimpleHTTP", "disable_nagle_algorithm = True and wbufsize = -1 in the handler"),
    ("nodelay", "BaseHTTP", "disable_nagle_algorithm = True and wbufsize = -1 in the handler"),
    ("nodelay", "node", "socket.setNoDelay(true), or one write for head and body"),
    ("nodelay", "", "set TCP_NODELAY, or write the head and the body at once (writev(2))"),
    ("keep-alive", "nginx", "keepalive_timeout 75s; keepalive_requests 1000;"),
    ("keep-alive", "Apache", "KeepAlive On"),
    ("keep-alive", "gunicorn", "worker class gthread, --keep-alive 5"),
    ("keep-alive", "SimpleHTTP", "protocol_version = 'HTTP/1.1', or --protocol HTTP/1.1"),
    ("keep-alive", "BaseHTTP", "protocol_version = 'HTTP/1.1'"),
    ("half-requests", "nginx", "client_header_timeout 10s; worker_connections 4096;"),
    ("half-requests", "Apache", "mpm_event, and RequestReadTimeout header=10"),
    ("half-requests", "haproxy", "timeout http-request 10s"),
    ("half-requests", "gunicorn", "worker class gthread or gevent, behind a proxy that buffers"),
    ("half-requests", "node", "server.headersTimeout = 10000"),
    ("half-requests", "Go", "http.Server{ReadHeaderTimeout: 10 * time.Second}"),
    ("half-requests", "", "serve more connections than workers, and limit the time of a request"),
    ("silent", "Apache", "mpm_event, and RequestReadTimeout header=10"),
    ("silent", "gunicorn", "worker class gthread or gevent, behind a proxy that buffers"),
    ("silent", "", "wait for many connections at once (epoll), or limit the time of silence"),
    ("slow-readers", "nginx", "send_timeout 10s;"),
    ("slow-readers", "Apache", "mpm_event, and Timeout 10"),
    ("slow-readers", "gunicorn", "behind a proxy that buffers replies"),
    ("slow-readers", "Go", "http.Server{WriteTimeout: 10 * time.Second}"),
    ("slow-readers", "", "write without blocking, and limit the time of a reply (SO_SNDTIMEO)"),
    ("endless-head", "nginx", "large_client_header_buffers 4 8k;"),
    ("endless-head", "Apache", "LimitRequestFieldSize 8190"),
    ("endless-head", "haproxy", "tune.bufsize 16384"),
    ("endless-head", "node", "http.createServer({maxHeaderSize: 16384})"),
    ("endless-head", "Go", "http.Server{MaxHeaderBytes: 16 << 10}"),
    ("endless-head", "", "refuse a head above some KiB with 431, and close"),
    ("large-body", "nginx", "client_max_body_size 1m;"),
    ("large-body", "Apache", "LimitRequestBody 1048576"),
    ("large-body", "Go", "http.MaxBytesReader"),
    ("large-body", "", "limit the length of a body with 413"),
    ("descriptors", "nginx", "worker_rlimit_nofile above twice worker_connections"),
    ("descriptors", "haproxy", "maxconn below ulimit -n"),
    ("descriptors", "", "at EMFILE stop accepting until a connection closes, and raise ulimit -n"),
    ("flood", "", "limit connections per client, and at EMFILE stop accepting"),
    ("leaks", "", "close the descriptor on every path of a client that fails"),
    ("sigterm", "nginx", "stop with SIGQUIT: nginx -s quit"),
    ("sigterm", "Apache", "stop with SIGWINCH: apachectl graceful-stop"),
    ("sigterm", "haproxy", "stop with SIGUSR1, and hard-stop-after 30s"),
    ("sigterm", "node", "process.on('SIGTERM', () => server.close())"),
    ("sigterm", "Go", "on SIGTERM: server.Shutdown(ctx)"),
    ("sigterm", "", "on SIGTERM stop accepting, finish the requests, then end"),
    ("kill", "", "set SO_REUSEADDR before bind(2)"),
    ("pauses", "", "look for a sleep, a lock, a timer or garbage collection on the path"),
    ("idle-memory", "", "small stacks, and no buffer for a connection that is idle"),
    ("chunked-and-length", "", "refuse a request with both, or close after its reply"),
];

/// The remedy of a trial for a server; empty if none is known.
pub(crate) fn of(trial: &str, program: &str) -> &'static str {
    let is_fit = |row: &&(&str, &str, &str)| row.0 == trial && program.starts_with(row.1);
    REMEDIES.iter().find(is_fit).map_or("", |row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_that_of_the_server_or_of_all() {
        assert!(of("backlog", "nginx/1.22").starts_with("listen"));
        assert!(of("backlog", "mine").starts_with("listen(fd"));
        assert_eq!(of("date", "mine"), "");
        let names = crate::names();
        for (trial, ..) in REMEDIES {
            assert!(names.contains(trial), "no trial {trial}");
        }
    }
}
