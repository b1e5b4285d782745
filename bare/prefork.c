/* Children forked beforehand, each accepting on the one listener and serving its client to the
 * end. The parent waits; the children end with it. */
#define _GNU_SOURCE
#include "blocking.h"
#include <signal.h>
#include <sys/prctl.h>

int main(int argc, char **argv) {
    int works, listener = begin_blocking(argc, argv, &works);
    pid_t parent = getpid();
    for (int i = 0; i < workers; i++) {
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0); /* the parent ended before this call */
        for (int fd;;)
            if ((fd = next(listener)) >= 0) serve(fd, works);
    }
    for (;;) pause();
}
