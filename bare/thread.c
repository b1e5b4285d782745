/* A thread for each connection. Its stack is small, so that the C library keeps the stacks of
 * ended threads for the next ones instead of mapping new ones. */
#define _GNU_SOURCE
#include "blocking.h"
#include <pthread.h>

enum { STACK = 1 << 16 };

static int works;

static void *run(void *fd) {
    serve((int)(intptr_t)fd, works);
    return NULL;
}

int main(int argc, char **argv) {
    int listener = begin_blocking(argc, argv, &works);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_attr_setstacksize(&attr, STACK)) die("stack size");
    for (;;) {
        int fd = next(listener);
        pthread_t thread;
        if (fd >= 0 && pthread_create(&thread, &attr, run, (void *)(intptr_t)fd)) close(fd);
    }
}
