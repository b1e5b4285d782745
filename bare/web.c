/* The epoll loop that answers HTTP/1.1: one fixed answer for each empty line that ends a head.
 *
 * It looks only for the end of a request, which may be split anywhere between two receives. The
 * answer is as long as that of a real server, with a date that never changes. */
#define _GNU_SOURCE
#include "readiness.h"
#include <sys/epoll.h>

enum { EVENTS_MAX = 1024, HEAD_MIN = sizeof "GET / HTTP/1.0\r\n\r\n" - 1 };

static const char answer_text[] = "HTTP/1.1 200 OK\r\nServer: roundhouse\r\n"
                                  "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                                  "Content-Type: text/plain\r\n"
                                  "Content-Length: 13\r\n\r\nHello, World!";
enum { ANSWER_LEN = sizeof answer_text - 1 };
static char answers[(INPUT_MAX / HEAD_MIN + 1) * ANSWER_LEN];

/* Counts the ends of heads that are whole in `in`; vectorised, so that it costs almost nothing. */
__attribute__((optimize("O3"))) static size_t ends(const char *in, size_t len) {
    size_t count = 0;
    for (size_t i = 0; i + 3 < len; i++)
        count += (in[i] == '\r') & (in[i + 1] == '\n') & (in[i + 2] == '\r') & (in[i + 3] == '\n');
    return count;
}

/* How many heads end in `in`; `*seen` is how much of an end the bytes before it contain. */
static size_t heads(const char *in, size_t len, uint16_t *seen) {
    const char *end = in + len, *at = in;
    size_t count = 0;
    while (*seen && at < end) {
        if (*at != "\r\n\r\n"[*seen]) *seen = 0;
        else if (at++, ++*seen == 4) count++, *seen = 0;
    }
    count += ends(at, (size_t)(end - at));
    /* The beginning of an end can only be in the last three bytes. */
    for (uint16_t part = 3; part; part--)
        if (end - at >= part && !memcmp(end - part, "\r\n\r\n", part)) {
            /* A whole end has "\r\n" at its end, too. */
            if (part == 2 && end - at > 3 && !memcmp(end - 4, "\r\n\r\n", 4)) break;
            *seen = part;
            break;
        }
    return count;
}

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) close(fd);
}

/* Reads once, answers once. Returns 0 when the connection is over. */
static int say(int fd) {
    ssize_t len = recv(fd, input, INPUT_MAX, 0);
    if (len <= 0) return len < 0 && (errno == EAGAIN || errno == EINTR);
    size_t send_len = heads(input, (size_t)len, &conns[fd].tail_len) * ANSWER_LEN;
    if (send_len > sizeof answers) return 0;
    return !send_len || send(fd, answers, send_len, MSG_NOSIGNAL) == (ssize_t)send_len;
}

int main(int argc, char **argv) {
    static struct epoll_event events[EVENTS_MAX];
    int works, listener = begin(argc, argv, &works), epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    for (char *at = answers; at + ANSWER_LEN <= answers + sizeof answers; at += ANSWER_LEN)
        memcpy(at, answer_text, ANSWER_LEN);
    watch(epoll, listener);
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (ready < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) watch(epoll, admit(listener, FDS_MAX));
            else if (!say(fd)) close(fd);
        }
    }
}
