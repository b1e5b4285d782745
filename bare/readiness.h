/* The common part of the readiness loops: one table of connections, one input and one output
 * buffer for all, one accept, and one recv and one send per ready connection and turn. */
#include "begin.h"

static char input[INPUT_MAX + SLACK];
static char output[OUTPUT_MAX];

/* Accepts a waiting client. Returns its descriptor, below `fds_max`, or -1. */
static inline int admit(int listener, int fds_max) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= fds_max) {
        close(fd);
        return -1;
    }
    if (fd >= 0) conns[fd].tail_len = 0;
    return fd;
}

/* Reads once, answers once. Returns 0 when the connection is over. */
static inline int serve(int fd, int works) {
    ssize_t len = recv(fd, input, INPUT_MAX, 0);
    if (len <= 0) return len < 0 && (errno == EAGAIN || errno == EINTR);
    const char *from = fixed;
    size_t send_len;
    if (works) {
        char *end = work(&conns[fd], input, (size_t)len, output);
        if (!end) return 0;
        from = output;
        send_len = (size_t)(end - output);
    } else {
        send_len = newlines(input, (size_t)len) * BOUGHT_LEN;
    }
    return !send_len || send(fd, from, send_len, MSG_NOSIGNAL) == (ssize_t)send_len;
}
