/* The select loop that does nothing but serve: a set of bits by descriptor, copied in and out in
 * every turn and searched word by word. Descriptors from FD_SETSIZE on have no bit, so such a
 * client is closed at once. */
#define _GNU_SOURCE
#include "readiness.h"
#include <sys/select.h>

enum { BITS = 8 * sizeof(fd_mask) };

int main(int argc, char **argv) {
    int works, listener = begin(argc, argv, &works), top = listener;
    fd_set watched, ready;
    FD_ZERO(&watched);
    FD_SET(listener, &watched);
    for (;;) {
        ready = watched;
        int left = select(top + 1, &ready, NULL, NULL, NULL);
        if (left < 0 && errno != EINTR) die("select");
        for (int word = 0; left > 0 && word <= top / BITS; word++) {
            unsigned long bits = (unsigned long)ready.fds_bits[word];
            for (; bits; bits &= bits - 1, left--) {
                int fd = word * BITS + __builtin_ctzl(bits);
                if (fd == listener) {
                    if ((fd = admit(listener, FD_SETSIZE)) < 0) continue;
                    FD_SET(fd, &watched);
                    if (fd > top) top = fd;
                } else if (!serve(fd, works)) {
                    close(fd);
                    FD_CLR(fd, &watched);
                    while (!FD_ISSET(top, &watched)) top--;
                }
            }
        }
    }
}
