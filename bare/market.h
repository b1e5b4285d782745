/* The common part of all bare loops: the table, the connections' tails and the two services.
 *
 * A bare loop is an upper bound: the least work that still answers the right bytes. It has no
 * limits, no timeouts and no back-pressure; a client that does not read its replies is cut off.
 * `count` answers one fixed reply per newline and never looks at a request. `work` does what the
 * stock service does for a request: parse one line, look the id up, update one word, format.
 * A connection owns only the tail of a split line; input, output and replies are shared by all
 * connections, so that the hot memory is a few cache lines.
 * Loops with several workers define WORKERS first (blocking.h does): then the table lies in memory
 * that threads and children share, an order is one atomic update, and output has little room. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The table is small on purpose: OUTPUT_MAX is the longest answer to one input full of `show`, so
 * no loop checks for room inside an input. Those pages are not touched unless that happens. */
enum { FDS_MAX = 1 << 16, TAIL_MAX = 56, SLOTS = 4096, ROW_MAX = 64, SLACK = 8 };
#ifdef WORKERS
enum { STOCKS_MAX = 64, INPUT_MAX = 1 << 11 };
#else
enum { STOCKS_MAX = 1024, INPUT_MAX = 1 << 13 };
#endif
enum { SHOW_MAX = STOCKS_MAX * ROW_MAX + 1 };
enum { OUTPUT_MAX = (INPUT_MAX / (sizeof "show\n" - 1) + 2) * SHOW_MAX };
_Static_assert(INPUT_MAX * 16 <= OUTPUT_MAX, "a fixed reply to each byte fits as well");

struct conn { uint16_t generation; uint16_t tail_len; char tail[TAIL_MAX + SLACK]; };
struct stock { uint64_t id, left, price; };

#ifdef WORKERS
static struct stock *stocks;
#else
static struct conn conns[FDS_MAX];
static struct stock stocks[STOCKS_MAX];
static char show[SHOW_MAX];
static size_t show_len; /* 0 when an order has changed the table since it was rendered */
#endif
static uint16_t slots[SLOTS]; /* 1 + the index of a stock; 0 is free */
static uint32_t stocks_len;

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

static char *render(char *at) {
    for (uint32_t i = 0; i < stocks_len; i++) {
        at = put_number(at, stocks[i].id, ' ');
        at = put_number(at, __atomic_load_n(&stocks[i].left, __ATOMIC_RELAXED), ' ');
        at = put_number(at, stocks[i].price, '\n');
    }
    *at++ = '\n';
    return at;
}

#ifdef WORKERS
/* Each row is read at its own moment; reading all rows at one moment would cost a gate. */
static char *put_show(char *out) { return render(out); }

/* Changes one word atomically. Returns 0 when fewer than `count` are left to buy. */
static inline int trade(struct stock *stock, uint64_t count, int sells) {
    uint64_t left = __atomic_load_n(&stock->left, __ATOMIC_RELAXED);
    do if (!sells && left < count) return 0;
    while (!__atomic_compare_exchange_n(&stock->left, &left, sells ? left + count : left - count, 1,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 1;
}
#else
static char *put_show(char *out) {
    if (!show_len) show_len = (size_t)(render(show) - show);
    return put(out, show, show_len);
}

/* Changes one word. Returns 0 when fewer than `count` are left to buy. */
static inline int trade(struct stock *stock, uint64_t count, int sells) {
    if (!sells && stock->left < count) return 0;
    stock->left += sells ? count : -count;
    show_len = 0;
    return 1;
}
#endif

/* Reads 1 to 18 digits; a number stops at the newline that ends its line at the latest. */
static inline const char *number(const char *at, uint64_t *value) {
    const char *start = at;
    uint64_t sum = 0;
    for (unsigned digit; (digit = (unsigned)(*at - '0')) < 10; at++) sum = sum * 10 + digit;
    *value = sum;
    return at == start || at - start > 18 ? NULL : at;
}

/* Answers the line at `*line`, which a newline ends, and moves `*line` past that newline. */
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
            if (!trade(stock, count, sells)) return PUT(out, "Not enough left stocks\n");
            return sells ? PUT(out, "[sell] success\n") : PUT(out, bought);
        }
    } else if (!memcmp(at, "show\n", 5)) {
        *line = at + 5;
        return put_show(out);
    }
    *line = (const char *)rawmemchr(at, '\n') + 1;
    return PUT(out, "not understood\n");
}

#ifdef WORKERS
static char *room(struct conn *conn, char *out); /* for one more reply; see blocking.h */
#else
#define room(conn, out) (out)
#endif

/* Answers all whole lines of `in` and keeps the tail. Returns the end of the replies, or NULL
 * if a line is too long. `in` is followed by SLACK readable bytes. */
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
        while (in <= last) out = answer(&in, room(conn, out));
    if (end - in > TAIL_MAX) return NULL;
    if (end > in) memcpy(conn->tail, in, conn->tail_len = (uint16_t)(end - in));
    return out;
}

/* The newlines of `in`; vectorised, so that this costs nothing compared with the system calls. */
__attribute__((optimize("O3"))) static size_t newlines(const char *in, size_t len) {
    size_t count = 0;
    for (size_t i = 0; i < len; i++) count += in[i] == '\n';
    return count;
}
