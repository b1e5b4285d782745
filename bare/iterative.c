/* One process, one client at a time. */
#define _GNU_SOURCE
#include "blocking.h"

int main(int argc, char **argv) {
    int works, listener = begin_blocking(argc, argv, &works);
    for (int fd;;)
        if ((fd = next(listener)) >= 0) serve(fd, works);
}
