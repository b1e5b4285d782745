/* A child for each connection, as in the first servers. Dead children are waited for when the
 * next client comes, so there is no signal handler, and no child's CPU time is lost. */
#define _GNU_SOURCE
#include "blocking.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
    int works, listener = begin_blocking(argc, argv, &works);
    for (;;) {
        int fd = next(listener);
        if (fd < 0) continue;
        pid_t child = fork();
        if (!child) {
            serve(fd, works);
            _exit(0);
        }
        close(fd);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
    }
}
