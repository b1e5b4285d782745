/* The common part of the blocking loops: one client from its first byte to its last, by plain
 * blocking calls. The loops differ in the caller of `serve`: a process, a thread, or one of many.
 * A send does not wait, as in the other loops: a client that does not read its replies is cut off,
 * and cannot keep a worker. */
#define WORKERS
#include "begin.h"
#include <fcntl.h>

/* The data that a worker has on its stack. */
struct desk {
    struct conn conn;
    int fd, broken;
    char input[INPUT_MAX + SLACK], output[2 * SHOW_MAX];
};

/* Sends a run of replies, all or never. */
static inline void flush(struct desk *desk, const char *from, size_t len) {
    if (len && send(desk->fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len)
        desk->broken = 1;
}

/* Makes room for one more reply after `out`. */
static char *room(struct conn *conn, char *out) {
    struct desk *desk = (struct desk *)conn; /* its first member */
    if (out - desk->output <= SHOW_MAX) return out;
    flush(desk, desk->output, (size_t)(out - desk->output));
    return desk->output;
}

/* Serves one client to its end. */
static void serve(int fd, int works) {
    struct desk desk;
    desk.conn.tail_len = 0, desk.fd = fd, desk.broken = 0;
    ssize_t len;
    while (!desk.broken && (len = recv(fd, desk.input, INPUT_MAX, 0)) > 0) {
        if (works) {
            char *end = work(&desk.conn, desk.input, (size_t)len, desk.output);
            if (!end) break;
            flush(&desk, desk.output, (size_t)(end - desk.output));
        } else {
            flush(&desk, fixed, newlines(desk.input, (size_t)len) * BOUGHT_LEN);
        }
    }
    close(fd);
}

/* As `begin`, but waits in accept. */
static int begin_blocking(int argc, char **argv, int *works) {
    int listener = begin(argc, argv, works);
    if (fcntl(listener, F_SETFL, 0)) die("fcntl");
    return listener;
}

/* Waits for the next client, which may already be gone. */
static inline int next(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC); }
