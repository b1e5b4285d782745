/* The epoll loop that does nothing but serve: level-triggered; the kernel keeps the set. */
#define _GNU_SOURCE
#include "readiness.h"
#include <sys/epoll.h>

enum { EVENTS_MAX = 1024 };

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) close(fd);
}

int main(int argc, char **argv) {
    static struct epoll_event events[EVENTS_MAX];
    int works, listener = begin(argc, argv, &works), epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) die("epoll_create1");
    watch(epoll, listener);
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (ready < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) watch(epoll, admit(listener, FDS_MAX));
            else if (!serve(fd, works)) close(fd);
        }
    }
}
