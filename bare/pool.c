/* A pool of threads fed by a bounded buffer (Bryant and O'Hallaron, CS:APP, section 12.5.4): one
 * thread accepts and inserts, a worker removes and serves its client to the end. */
#define _GNU_SOURCE
#include "blocking.h"
#include <pthread.h>
#include <semaphore.h>

enum { SLOTS_MAX = 16 };

static int works, buffer[SLOTS_MAX];
static unsigned front, rear;
static sem_t slots_left, waiting;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void take(sem_t *sem) {
    while (sem_wait(sem) && errno == EINTR) {}
}

static void insert(int fd) {
    take(&slots_left);
    buffer[rear++ % SLOTS_MAX] = fd; /* only one thread inserts */
    sem_post(&waiting);
}

static int removed(void) {
    take(&waiting);
    pthread_mutex_lock(&mutex);
    int fd = buffer[front++ % SLOTS_MAX];
    pthread_mutex_unlock(&mutex);
    sem_post(&slots_left);
    return fd;
}

static void *run(void *unused) {
    for (;;) serve(removed(), works);
    return unused;
}

int main(int argc, char **argv) {
    int listener = begin_blocking(argc, argv, &works);
    sem_init(&slots_left, 0, SLOTS_MAX);
    sem_init(&waiting, 0, 0);
    for (int i = 0; i < workers; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, NULL)) die("pthread_create");
    }
    for (int fd;;)
        if ((fd = next(listener)) >= 0) insert(fd);
}
