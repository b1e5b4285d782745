/* The loop of datagrams that does nothing but serve: one recvfrom(2) and one sendto(2) for each.
 *
 *   udp-echo PORT        prints a line with the address, and returns each datagram to its sender */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static void die(const char *what) {
    perror(what);
    exit(1);
}

int main(int argc, char **argv) {
    static char bytes[65536];
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)atoi(argc > 1 ? argv[1] : "0"))};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), room = 4 << 20;
    if (fd < 0) die("socket");
    /* As the server that is compared with it: beyond the machine's limit where that is allowed. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room)) die("SO_RCVBUF");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) && errno != EPERM)
        die("SO_RCVBUFFORCE");
    if (bind(fd, (struct sockaddr *)&addr, len)) die("bind");
    if (getsockname(fd, (struct sockaddr *)&addr, &len)) die("getsockname");
    printf("{\"listening\": \"127.0.0.1:%d\"}\n", ntohs(addr.sin_port));
    fflush(stdout);
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof peer;
        ssize_t got = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&peer, &peer_len);
        if (got >= 0) sendto(fd, bytes, (size_t)got, 0, (struct sockaddr *)&peer, peer_len);
    }
}
