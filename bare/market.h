/* What both bare loops share: the listening socket, the connections' tails and the two services.
 *
 * A bare loop is an upper bound: the least work that still answers the right bytes. It has no
 * limits, no timeouts and no back-pressure; a client that does not read its replies is cut off.
 * `count` answers one fixed reply per newline and never looks at a request. `work` does what the
 * stock service does for a request: parse one line, look the id up, update one word, format.
 * The surprising thing: a connection owns nothing but the tail of a split line; input, output and
 * replies are shared by all connections, so that the hot memory is a few cache lines. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The table is small on purpose: OUTPUT_MAX is what one input full of `show` can answer, so no
 * loop ever checks for room inside an input. Those pages are not touched unless that happens. */
enum { FDS_MAX = 1 << 16, TAIL_MAX = 56, STOCKS_MAX = 1024, SLOTS = 4096, ROW_MAX = 64 };
enum { INPUT_MAX = 1 << 13, SLACK = 8, SHOW_MAX = STOCKS_MAX * ROW_MAX + 1 };
enum { OUTPUT_MAX = (INPUT_MAX / (sizeof "show\n" - 1) + 2) * SHOW_MAX };
_Static_assert(INPUT_MAX * 16 <= OUTPUT_MAX, "a fixed reply to each byte fits as well");

struct conn { uint16_t generation; uint16_t tail_len; char tail[TAIL_MAX + SLACK]; };
struct stock { uint64_t id, left, price; };

static struct conn conns[FDS_MAX];
static struct stock stocks[STOCKS_MAX];
static uint16_t slots[SLOTS]; /* 1 + the index of a stock; 0 is free */
static uint32_t stocks_len;
static char show[SHOW_MAX];
static size_t show_len; /* 0 when an order has changed the table since it was rendered */

static const char bought[] = "[buy] success\n";
enum { BOUGHT_LEN = sizeof bought - 1 };
static char fixed[INPUT_MAX * BOUGHT_LEN]; /* `count` sends a prefix of it and formats nothing */

static void die(const char *what) {
    fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint32_t slot_of(uint64_t id) { return (uint32_t)(id * 0x9E3779B97F4A7C15ull >> 52); }

static inline struct stock *find(uint64_t id) {
    for (uint32_t at = slot_of(id); slots[at]; at = (at + 1) % SLOTS)
        if (stocks[slots[at] - 1].id == id) return &stocks[slots[at] - 1];
    return NULL;
}

static void add(uint64_t id, uint64_t left, uint64_t price) {
    if (stocks_len == STOCKS_MAX || find(id)) {
        fprintf(stderr, "bare: expected at most %d stocks, each id once\n", STOCKS_MAX);
        exit(1);
    }
    uint32_t at = slot_of(id);
    while (slots[at]) at = (at + 1) % SLOTS;
    stocks[stocks_len] = (struct stock){id, left, price};
    slots[at] = (uint16_t)++stocks_len;
}

/* Fills the table from lines `ID LEFT PRICE`, or with ten stocks that do not run out. */
static void load(const char *path) {
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

static char *put_number(char *out, uint64_t value, char after) {
    char digits[20];
    int len = 0;
    do digits[len++] = (char)('0' + value % 10); while (value /= 10);
    while (len) *out++ = digits[--len];
    *out++ = after;
    return out;
}

static inline char *put(char *out, const char *text, size_t len) {
    return (char *)memcpy(out, text, len) + len;
}
#define PUT(out, text) put(out, text, sizeof text - 1)

static char *put_show(char *out) {
    if (!show_len) {
        char *at = show;
        for (uint32_t i = 0; i < stocks_len; i++) {
            at = put_number(at, stocks[i].id, ' ');
            at = put_number(at, stocks[i].left, ' ');
            at = put_number(at, stocks[i].price, '\n');
        }
        *at++ = '\n';
        show_len = (size_t)(at - show);
    }
    return put(out, show, show_len);
}

/* Reads 1 to 18 digits; a number stops at the newline that ends its line at the latest. */
static inline const char *number(const char *at, uint64_t *value) {
    const char *start = at;
    uint64_t sum = 0;
    for (unsigned digit; (digit = (unsigned)(*at - '0')) < 10; at++) sum = sum * 10 + digit;
    *value = sum;
    return at == start || at - start > 18 ? NULL : at;
}

/* Answers the line at `*line`, which a newline ends, and moves `*line` behind that newline. */
static inline char *answer(const char **line, char *out) {
    const char *at = *line;
    uint64_t id, count;
    int sells = !memcmp(at, "sell ", 5);
    if (sells || !memcmp(at, "buy ", 4)) {
        const char *rest = number(at + 4 + sells, &id);
        if (rest && *rest == ' ' && (rest = number(rest + 1, &count)) && *rest == '\n' && count) {
            *line = rest + 1;
            struct stock *stock = find(id);
            if (!stock) return PUT(out, "no such stock\n");
            if (!sells && stock->left < count) return PUT(out, "Not enough left stocks\n");
            stock->left += sells ? count : -count;
            show_len = 0;
            return sells ? PUT(out, "[sell] success\n") : PUT(out, bought);
        }
    } else if (!memcmp(at, "show\n", 5)) {
        *line = at + 5;
        return put_show(out);
    }
    *line = (const char *)rawmemchr(at, '\n') + 1;
    return PUT(out, "not understood\n");
}

/* Answers all whole lines of `in` and keeps the tail. Returns the end of the replies, or NULL
 * where a line is too long. `in` has SLACK readable bytes behind it. */
static inline char *work(struct conn *conn, const char *in, size_t len, char *out) {
    const char *end = in + len;
    if (conn->tail_len) {
        const char *newline = memchr(in, '\n', len), *line = conn->tail;
        size_t take = newline ? (size_t)(newline + 1 - in) : len;
        if (conn->tail_len + take > TAIL_MAX) return NULL;
        memcpy(conn->tail + conn->tail_len, in, take);
        conn->tail_len += (uint16_t)take;
        if (!newline) return out;
        out = answer(&line, out);
        conn->tail_len = 0;
        in += take;
    }
    const char *last = memrchr(in, '\n', (size_t)(end - in));
    if (last)
        while (in <= last) out = answer(&in, out);
    if (end - in > TAIL_MAX) return NULL;
    if (end > in) memcpy(conn->tail, in, conn->tail_len = (uint16_t)(end - in));
    return out;
}

/* The newlines of `in`; vectorised, so that this costs nothing beside the system calls. */
__attribute__((optimize("O3"))) static size_t newlines(const char *in, size_t len) {
    size_t count = 0;
    for (size_t i = 0; i < len; i++) count += in[i] == '\n';
    return count;
}

/* Reads the command line, fills the table and listens. Sets `*works`; returns the socket. */
static int begin(int argc, char **argv, int *works) {
    *works = argc > 1 && !strcmp(argv[1], "work");
    if (argc < 3 || argc > 4 || (!*works && strcmp(argv[1], "count"))) {
        fprintf(stderr, "usage: %s work|count PORT [stock.txt]\n", argv[0]);
        exit(2);
    }
    load(argc == 4 ? argv[3] : NULL);
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
