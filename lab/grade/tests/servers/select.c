/* A stock server with one loop over select. It reads lines in pieces as it should, but writes with
 * a blocking call: one client that does not read stops all others. */
#include "market.h"
#include <sys/select.h>

static struct client {
    size_t have;
    char text[4096];
} clients[FD_SETSIZE];

/* Returns 0 if the client has left. */
static int turn(int fd) {
    struct client *it = &clients[fd];
    char reply[BLOCK];
    ssize_t got = read(fd, it->text + it->have, sizeof it->text - 1 - it->have);
    if (got <= 0) return 0;
    it->have += got;
    char *end;
    for (; (end = memchr(it->text, '\n', it->have)); memmove(it->text, end + 1, it->have)) {
        *end = 0;
        it->have -= end + 1 - it->text;
        if (!execute(it->text, reply) || write(fd, reply, BLOCK) != BLOCK) return 0;
    }
    return it->have < sizeof it->text - 1;
}

int main(int argc, char **argv) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[argc - 1]))};
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0), last = door;
    fd_set all, ready;
    load();
    signal(SIGPIPE, SIG_IGN);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (void *)&at, sizeof at) || listen(door, 1024)) return perror("bind"), 1;
    FD_ZERO(&all);
    FD_SET(door, &all);
    for (;;) {
        ready = all;
        if (select(last + 1, &ready, 0, 0, 0) < 0 && errno != EINTR) return perror("select"), 1;
        for (int fd = 0; fd <= last; fd++) {
            if (!FD_ISSET(fd, &ready)) continue;
            if (fd != door) {
                if (turn(fd)) continue;
                close(fd);
                FD_CLR(fd, &all);
                clients[fd].have = 0;
                if (--market->clients == 0) save();
                continue;
            }
            int next = accept(door, 0, 0);
            if (next < 0 || next >= FD_SETSIZE) { if (next >= 0) close(next); continue; }
            FD_SET(next, &all);
            if (next > last) last = next;
            market->clients++;
        }
    }
}
