/* One server of HTTP, and a switch for each thing that the kernel offers to lower its share of a
 * request on the ordinary path: the loop is always the same, so a difference is the option's.
 *
 * options ADDRESS PORT LENGTH [OPTION...]: replies of LENGTH bytes, for clients at depth 1 (a
 * receive that ends with an empty line is a request). `experiments/programs/kernel_options.py`
 * measures the options in turns. Constants that older headers lack are spelled out. */
#define _GNU_SOURCE
#include "sockmap.h"
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum option {
    NAGLE, QUICKACK, BUSY_EPOLL, BLOCKING, BUSY_SOCKET, ZEROCOPY, SOCKMAP,
    URING, SINGLE, BUNDLE, NAPI, SQPOLL, SEND_ZC, OPTIONS
};
static const char *const NAMES[OPTIONS] = {
    "nagle", "quickack", "busy-epoll", "blocking", "busy-socket", "zerocopy", "sockmap",
    "uring", "single", "bundle", "napi", "sqpoll", "send-zc"};
static int has[OPTIONS], answer_len;
static char *answer, input[4096];

/* Microseconds of a busy poll: longer than a round trip here, so that each finds its packet. */
enum { SPIN = 60, EVENTS = 64, SEND_MORE = 100 };

static void set(int fd, int level, int option, int value, const char *what) {
    if (setsockopt(fd, level, option, &value, sizeof value)) die(what);
}

static int open_listener(const char *address, int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    name.sin_addr.s_addr = inet_addr(address);
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
    set(fd, IPPROTO_TCP, TCP_NODELAY, !has[NAGLE], "TCP_NODELAY");
    if (bind(fd, (struct sockaddr *)&name, sizeof name)) die("bind");
    socklen_t len = sizeof name;
    if (listen(fd, 1024) || getsockname(fd, (struct sockaddr *)&name, &len)) die("listen");
    printf("{\"listening\": \"%s:%d\"}\n", address, ntohs(name.sin_port));
    return fd;
}

static int admit(int listener, int flags) {
    int fd = accept4(listener, NULL, NULL, flags | SOCK_CLOEXEC);
    if (fd < 0) die("accept4");
    if (has[ZEROCOPY]) set(fd, SOL_SOCKET, SO_ZEROCOPY, 1, "SO_ZEROCOPY");
    if (has[BUSY_SOCKET]) {
        set(fd, SOL_SOCKET, SO_BUSY_POLL, SPIN, "SO_BUSY_POLL");
        set(fd, SOL_SOCKET, 69 /* SO_PREFER_BUSY_POLL */, 1, "SO_PREFER_BUSY_POLL");
    }
    return fd;
}

static int is_request(const char *bytes, ssize_t len) {
    return len >= 4 && !memcmp(bytes + len - 4, "\r\n\r\n", 4);
}

/* Says once whether memory of a zero-copy send was copied after all. */
static void tell(int copied) {
    static int told;
    if (!told++) fprintf(stderr, "zero copy: %s\n", copied ? "copied" : "not copied");
}

/* Takes the notices that the kernel needs the bytes of a send no more. */
static void take_notices(int fd) {
    char room[128];
    for (;;) {
        struct msghdr head = {.msg_control = room, .msg_controllen = sizeof room};
        if (recvmsg(fd, &head, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
        struct cmsghdr *first = CMSG_FIRSTHDR(&head);
        if (!first) return;
        struct sock_extended_err *notice = (void *)CMSG_DATA(first);
        tell(notice->ee_code & SO_EE_CODE_ZEROCOPY_COPIED);
    }
}

static int reply(int fd) {
    int flags = MSG_NOSIGNAL | (has[ZEROCOPY] ? MSG_ZEROCOPY : 0);
    for (int sent = 0; sent < answer_len;) {
        ssize_t len = send(fd, answer + sent, (size_t)(answer_len - sent), flags);
        if (len < 0 && errno != EAGAIN && errno != ENOBUFS) return 0;
        if (len < 0) {
            struct pollfd room = {fd, POLLOUT, 0};
            poll(&room, 1, SEND_MORE);
            if (room.revents & POLLERR) take_notices(fd);
        } else sent += (int)len;
    }
    return 1;
}

/* Reads once, answers once. Returns 0 when the connection is over. */
static int serve(int fd) {
    ssize_t len = recv(fd, input, sizeof input, 0);
    if (len <= 0) return len < 0 && errno == EAGAIN;
    if (has[QUICKACK]) set(fd, IPPROTO_TCP, TCP_QUICKACK, 1, "TCP_QUICKACK");
    return !is_request(input, len) || reply(fd);
}

static void run_blocking(int listener) {
    for (;;) {
        int fd = admit(listener, 0);
        while (serve(fd)) {}
        close(fd);
    }
}

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

static void run_epoll(int listener) {
    static struct epoll_event events[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (has[BUSY_EPOLL]) {
        struct { uint32_t usecs; uint16_t budget; uint8_t prefer, pad; } busy = {SPIN, 64, 1, 0};
        if (ioctl(epoll, _IOC(_IOC_WRITE, 0x8A, 1, 8) /* EPIOCSPARAMS */, &busy))
            die("EPIOCSPARAMS");
    }
    watch(epoll, listener);
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        if (ready < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                watch(epoll, admit(listener, SOCK_NONBLOCK));
                continue;
            }
            if (events[i].events & EPOLLERR) take_notices(fd);
            if (!serve(fd)) close(fd);
        }
    }
}

#include "options_ring.h"

int main(int argc, char **argv) {
    for (int i = 4; i < argc; i++) {
        int at = 0;
        while (at < OPTIONS && strcmp(argv[i], NAMES[at])) at++;
        if (at == OPTIONS) return fprintf(stderr, "no option `%s`\n", argv[i]), 2;
        has[at] = 1;
    }
    if (argc < 4) return fprintf(stderr, "usage: options ADDRESS PORT LENGTH [OPTION...]\n"), 2;
    int body = atoi(argv[3]);
    /* Zero copy passes whole pages on. */
    if (!(answer = aligned_alloc(4096, (size_t)(body + 8192) & ~4095ul))) die("aligned_alloc");
    answer_len = sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", body);
    memset(answer + answer_len, 'x', (size_t)body), answer_len += body;
    if (has[SOCKMAP]) join_sockets();
    int listener = open_listener(argv[1], atoi(argv[2]));
    if (has[URING]) open_ring();
    /* The generator has the other core; the kernel's thread of SQPOLL may choose. */
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first)) die("sched_setaffinity");
    fflush(stdout);
    if (has[URING]) run_ring(listener);
    else if (has[BLOCKING]) run_blocking(listener);
    else run_epoll(listener);
}
