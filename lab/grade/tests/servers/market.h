/* The market of the sound and the faulty servers: book, file, and the execution of one line. Each
 * FAULT_x is one mistake of typical servers of the course. A usleep stands where a mistake has its
 * window of time, so that it shows in every run. Each ODD_x is another form of right replies. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 8192

struct stock { int id, left, price; };
static struct market {
    int count, clients, readers;
    pthread_mutex_t lock, gate, door; /* of the stocks, of the two counts */
    struct stock stocks[256];
} *market; /* shared by threads and by processes */

static void load(void) {
    market = mmap(0, sizeof *market, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&market->lock, &shared);
    pthread_mutex_init(&market->gate, &shared);
    pthread_mutex_init(&market->door, &shared);
    FILE *file = fopen("stock.txt", "r");
    struct stock *s = market->stocks;
    for (; file && fscanf(file, "%d %d %d", &s->id, &s->left, &s->price) == 3; s++)
#ifdef FAULT_TEN
        if (++market->count == 10) break;
#else
        if (++market->count == 256) break;
#endif
}

static void save(void) {
#ifndef FAULT_SAVE_NEVER
#ifdef FAULT_SAVE_TORN
    FILE *file = fopen("stock.txt", "w");
#else
    FILE *file = fopen("stock.new", "w");
#endif
    for (struct stock *s = market->stocks; s < market->stocks + market->count; s++)
        fprintf(file, "%d %d %d\n", s->id, s->left, s->price);
    fclose(file);
#ifndef FAULT_SAVE_TORN
    rename("stock.new", "stock.txt");
#endif
#endif
}

#ifdef FAULT_NO_LOCK
static void lock(void) {}
static void unlock(void) {}
#else
static void lock(void) { pthread_mutex_lock(&market->lock); }
static void unlock(void) { pthread_mutex_unlock(&market->lock); }
#endif

static void show(char *reply) {
#ifdef FAULT_STARVE
    /* The first readers-writers problem: writers wait while any reader is inside. The last reader
     * unlocks for another one, which only a default mutex allows. */
    pthread_mutex_lock(&market->gate);
    if (++market->readers == 1) lock();
    pthread_mutex_unlock(&market->gate);
    usleep(1000 * (5 + rand() % 30)); /* readers must not leave together */
#else
    lock();
#endif
    int used = 0;
    for (struct stock *s = market->stocks; s < market->stocks + market->count; s++)
        used += snprintf(reply + used, BLOCK - used, "%d %d %d\n", s->id, s->left, s->price);
#ifdef FAULT_STARVE
    pthread_mutex_lock(&market->gate);
    if (--market->readers == 0) unlock();
    pthread_mutex_unlock(&market->gate);
#else
    unlock();
#endif
}

static int trade(int side, long id, long count, char *reply) {
    int result = -1;
    lock();
    for (struct stock *s = market->stocks; s < market->stocks + market->count; s++) {
        if (s->id != id) continue;
        long left = s->left + side * count;
#ifdef FAULT_NO_LOCK
        usleep(1);
#endif
        if ((result = left >= 0 && left < 1 << 30)) s->left = left;
    }
    unlock();
    const char *words[] = {"error: no such stock\n", "Not enough left stocks\n", "[buy] success\n"};
    strcpy(reply, result == 1 && side > 0 ? "[sell] success\n" : words[result + 1]);
    return 1;
}

/* Writes the reply to a line; returns 0 if the client wants to leave. */
static int execute(const char *line, char *reply) {
    long id, count;
    int end = 0;
    memset(reply, 0, BLOCK);
    if (!strcmp(line, "show")) return show(reply), 1;
    if (!strcmp(line, "exit")) return 0;
    int buys = sscanf(line, "buy %9ld %9ld%n", &id, &count, &end) == 2;
    int sells = !buys && sscanf(line, "sell %9ld %9ld%n", &id, &count, &end) == 2;
    if ((buys || sells) && !line[end] && count > 0) return trade(sells ? 1 : -1, id, count, reply);
    strcpy(reply, "error: expected show, buy ID N, sell ID N or exit\n");
    return 1;
}

/* Gives the reply another form; returns its length. */
static size_t reword(const char *line, char *reply) {
    char plain[BLOCK], *word = strstr(reply, "success");
    strcpy(plain, reply);
#ifdef ODD_COLOUR
    snprintf(reply, BLOCK, "\033[1;32m%s\033[0m", plain);
#elif defined(ODD_TYPO)
    if (word) strcpy(word, "sucess\n");
#elif defined(ODD_CAPITAL)
    if (word) strcpy(word, "Success!\n");
#elif defined(ODD_HEADING)
    if (!strcmp(line, "show")) snprintf(reply, BLOCK, "ID LEFT PRICE\n%s", plain);
#elif defined(ODD_ECHO)
    snprintf(reply, BLOCK, "%s\n%s", line, plain);
#elif defined(ODD_ONE_LINE)
    if (!strcmp(line, "show"))
        for (char *at = reply; (at = strchr(at, '\n')) && at[1];) *at = '|';
#endif
    (void)word;
#if defined(ODD_ONE_LINE) || defined(ODD_NO_END)
    return strlen(reply);
#elif defined(ODD_ONE_NUL)
    return strlen(reply) + 1;
#else
    return BLOCK;
#endif
}
