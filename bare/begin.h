/* The start of a bare loop: the command line, the table, the listening socket, the ready line. */
#include "market.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

static int workers = 64; /* of the loops that have several */

/* Fills the table from lines `ID LEFT PRICE`, or with ten stocks that do not run out. */
static void load(const char *path) {
#ifdef WORKERS
    int flags = MAP_SHARED | MAP_ANONYMOUS;
    stocks = mmap(NULL, STOCKS_MAX * sizeof *stocks, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stocks == MAP_FAILED) die("mmap of the table");
#endif
    if (!path) {
        for (uint64_t id = 1; id <= 10; id++) add(id, 1000000000000, id * 1000);
        return;
    }
    FILE *file = fopen(path, "r");
    if (!file) die(path);
    unsigned long long id, left, price;
    while (fscanf(file, "%llu %llu %llu", &id, &left, &price) == 3) add(id, left, price);
    fclose(file);
}

/* Reads the command line, fills the table and listens. Sets `*works`; returns the socket. */
static int begin(int argc, char **argv, int *works) {
    *works = argc > 1 && !strcmp(argv[1], "work");
    if (argc == 5) workers = atoi(argv[4]);
    if (argc < 3 || argc > 5 || workers < 1 || (!*works && strcmp(argv[1], "count"))) {
        fprintf(stderr, "usage: %s work|count PORT [stock.txt [WORKERS]]\n", argv[0]);
        exit(2);
    }
    load(argc > 3 ? argv[3] : NULL);
    for (size_t i = 0; i < INPUT_MAX; i++) memcpy(fixed + i * BOUGHT_LEN, bought, BOUGHT_LEN);
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max < FDS_MAX ? files.rlim_max : FDS_MAX;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)atoi(argv[2]))};
    socklen_t len = sizeof addr;
    if (listener < 0) die("socket");
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)) die("SO_REUSEADDR");
    /* Accepted sockets inherit TCP_NODELAY from the listener (Linux). */
    if (setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) die("TCP_NODELAY");
    if (bind(listener, (struct sockaddr *)&addr, len)) die("bind");
    if (listen(listener, 4096)) die("listen");
    if (getsockname(listener, (struct sockaddr *)&addr, &len)) die("getsockname");
    printf("{\"listening\": \"127.0.0.1:%d\"}\n", ntohs(addr.sin_port));
    fflush(stdout);
    return listener;
}
