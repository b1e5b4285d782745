/* The epoll loop that does nothing but serve: level-triggered, one table of descriptors, one input
 * and one output buffer for all, one recv and one send per ready connection and turn. */
#define _GNU_SOURCE
#include "market.h"
#include <sys/epoll.h>

enum { EVENTS_MAX = 1024 };

static char input[INPUT_MAX + SLACK];
static char output[OUTPUT_MAX];

static void admit(int epoll, int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= FDS_MAX || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) {
        close(fd);
        return;
    }
    conns[fd].tail_len = 0;
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

int main(int argc, char **argv) {
    static struct epoll_event events[EVENTS_MAX];
    int works, listener = begin(argc, argv, &works), epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event)) die("epoll");
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (ready < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) admit(epoll, listener);
            else if (!serve(fd, works)) close(fd);
        }
    }
}
