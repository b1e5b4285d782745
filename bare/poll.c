/* The poll loop that does nothing but serve: a dense array of descriptors, passed to the kernel
 * whole in every turn; the last entry replaces one that is removed. */
#define _GNU_SOURCE
#include "readiness.h"
#include <poll.h>

int main(int argc, char **argv) {
    static struct pollfd watched[FDS_MAX];
    int works, listener = begin(argc, argv, &works);
    nfds_t len = 1;
    watched[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (;;) {
        int ready = poll(watched, len, -1);
        if (ready < 0 && errno != EINTR) die("poll");
        /* From the end, so that an entry that fills a gap has had its turn. */
        for (nfds_t i = len; ready > 0 && i-- > 1;) {
            if (!watched[i].revents) continue;
            ready--;
            if (serve(watched[i].fd, works)) continue;
            close(watched[i].fd);
            watched[i] = watched[--len];
        }
        if (ready <= 0) continue;
        int fd = admit(listener, FDS_MAX);
        if (fd >= 0) watched[len++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}
