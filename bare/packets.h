/* Shared by the bare senders: command line, schedule, packets and the line of figures. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 12, TURN_MAX = 1024, DATAGRAM_MAX = 65507, CONTENTS = 1 << 20, SLOT_NS = 1000000 };
enum { TICKS = 240 }; /* 30 ms of 8 kHz: the step of a timestamp */

static const char *sender = "";
static uint64_t streams = 1, packets = 100, gap_ns = 30000000, burst = 1, payload = 32, file;
static uint64_t cpu = -1UL;
static struct sockaddr_in to;
static int fd_udp, fd_file;
static char *contents, heads[TURN_MAX][HEAD];
static uint64_t start_ns, cpu_ns;
static int64_t *late; /* of each packet, when its call returned */
static _Atomic uint64_t calls, sent, failed;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static _Noreturn void usage(const char *why) {
    fprintf(stderr, "udp: %s\nusage: sender=NAME to=IP:PORT [streams=N] [packets=N] [gap_us=N] "
                    "[burst=N] [payload=BYTES] [file=0|1] [cpu=N]\n", why);
    exit(2);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t at) {
    struct timespec then = {(time_t)(at / 1000000000), (long)(at % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == EINTR) continue;
}

static inline void sleep_for(uint64_t ns) {
    struct timespec left = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) continue;
}

/* Packets are numbered in the order they are due: a burst of each stream in turn. */
static inline uint64_t due(uint64_t packet) {
    uint64_t turn = packet / burst;
    return start_ns + gap_ns * (turn / streams) + gap_ns * (turn % streams) / streams;
}

/* A packet: its stream, its number there, and where its payload begins in the contents. */
struct place {
    uint32_t stream, number;
    uint64_t at;
};

static inline struct place place_of(uint64_t packet) {
    uint64_t turn = packet / burst, number = turn / streams * burst + packet % burst;
    uint64_t pieces = payload ? CONTENTS / payload : 1;
    return (struct place){(uint32_t)(turn % streams), (uint32_t)number, number % pieces * payload};
}

/* Version 2, payload type 96; sequence number, timestamp, source (RFC 3550, section 5.1). */
static inline void head_of(struct place place, char *head) {
    uint16_t sequence = htons((uint16_t)place.number);
    uint32_t words[2] = {htonl(place.number * TICKS), htonl(place.stream)};
    head[0] = (char)0x80, head[1] = 96;
    memcpy(head + 2, &sequence, 2), memcpy(head + 4, words, 8);
}

static inline void count_call(ssize_t result, uint64_t made, int packets_of_it) {
    calls += made;
    if (result < 0) failed += (uint64_t)packets_of_it;
    else sent += (uint64_t)packets_of_it;
}

static inline void note_late(uint64_t first, int count) {
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    for (uint64_t i = first; i < first + (uint64_t)count; i++) late[i] = (int64_t)(now - due(i));
}

typedef int turn_fn(uint64_t first, int count);

/* Sends the due packets, then sleeps until the end of the slot of the next one. */
static void turns(turn_fn *send) {
    uint64_t all = streams * packets / burst * burst, next = 0;
    while (next < all) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        uint64_t end = next;
        while (end < next + TURN_MAX && end < all && due(end) <= now) end++;
        int count = (int)(end - next);
        if (count) {
            send(next, count);
            note_late(next, count);
            next += (uint64_t)count;
        } else {
            sleep_until(start_ns + (due(next) - start_ns + SLOT_NS - 1) / SLOT_NS * SLOT_NS);
        }
    }
}

static void begin(int argc, char **argv) {
    const struct { const char *name; uint64_t *to; } numbers[] = {
        {"streams", &streams}, {"packets", &packets}, {"gap_us", &gap_ns}, {"burst", &burst},
        {"payload", &payload}, {"file", &file}, {"cpu", &cpu},
    };
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '='), *port;
        if (!value) usage("expected NAME=VALUE");
        *value++ = 0;
        int known = !strcmp(argv[i], "sender");
        if (known) sender = value;
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            if (strcmp(argv[i], numbers[j].name)) continue;
            *numbers[j].to = strtoull(value, NULL, 10) * (numbers[j].to == &gap_ns ? 1000 : 1);
            known = 1;
        }
        if (!strcmp(argv[i], "to") && (port = strchr(value, ':'))) {
            *port++ = 0;
            to.sin_family = AF_INET, to.sin_port = htons((uint16_t)atoi(port));
            known = inet_pton(AF_INET, value, &to.sin_addr) == 1;
        }
        if (!known) usage(argv[i]);
    }
    if (!to.sin_family) usage("expected to=IP:PORT");
    if (!streams || !burst || packets % burst || payload > DATAGRAM_MAX - HEAD)
        usage("expected streams and burst above 0, packets a multiple of burst, a payload that "
              "fits");
    cpu_set_t only;
    CPU_ZERO(&only);
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &only);
    if (cpu != -1UL && sched_setaffinity(0, sizeof only, &only)) die("sched_setaffinity");
    char path[] = "/tmp/roundhouse-udp-XXXXXX";
    fd_file = mkstemp(path);
    if (fd_file < 0 || unlink(path) || ftruncate(fd_file, CONTENTS)) die("a file of payloads");
    contents = mmap(NULL, CONTENTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd_file, 0);
    late = calloc(streams * packets, sizeof *late);
    if (contents == MAP_FAILED || !late) die("memory");
    for (uint32_t i = 0; i < CONTENTS; i++) contents[i] = (char)(i / 3);
    int room = 4 << 20;
    fd_udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd_udp < 0 || setsockopt(fd_udp, SOL_SOCKET, SO_SNDBUF, &room, sizeof room)) die("socket");
}

static void start_clock(void) {
    cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    /* One gap of grace, as pacing's CbrSource has. */
    start_ns = clock_ns(CLOCK_MONOTONIC) + gap_ns;
}

static int by_value(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int print_line(void) {
    uint64_t took = clock_ns(CLOCK_MONOTONIC) - start_ns, count = streams * packets;
    cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    qsort(late, count, sizeof *late, by_value);
    printf("{\"sender\":\"bare-%s\",\"streams\":%lu,\"packets\":%lu,\"failed\":%lu,\"heard\":0,"
           "\"calls\":%lu,\"cpu_ns\":%lu,\"ns_per_packet\":%lu,\"took_ns\":%lu,",
           sender, streams, sent, failed, calls, cpu_ns, cpu_ns / (sent ? sent : 1), took);
    printf("\"late_p50_ns\":%ld,\"late_p99_ns\":%ld,\"late_p999_ns\":%ld,\"late_max_ns\":%ld}\n",
           late[count / 2], late[count * 99 / 100], late[count * 999 / 1000], late[count - 1]);
    return 0;
}
