/* A stock server with a thread for each client, or with FORKS a process. */
#include "market.h"

static int put(int fd, const char *bytes, size_t left) {
    while (left > 0) {
        ssize_t done = write(fd, bytes, left);
        if (done <= 0) return 0;
        bytes += done, left -= done;
    }
    return 1;
}

static int answer(int fd, const char *line) {
#ifdef FAULT_SHARED_BUFFER
    static
#endif
    char reply[BLOCK];
    int stays = execute(line, reply);
#ifdef FAULT_SHARED_BUFFER
    usleep(1);
#endif
    if (!stays) {
#ifdef ODD_STAYS
        return 1;
#endif
        return 0;
    }
    size_t length = reword(line, reply);
#ifdef ODD_TWO_WRITES
    return put(fd, reply, 3) && put(fd, reply + 3, length - 3);
#endif
    return put(fd, reply, length);
}

static void talk(int fd) {
    char text[4096];
    size_t have = 0;
    for (;;) {
        ssize_t got = read(fd, text + have, sizeof text - 1 - have);
#ifdef FAULT_RESET
        if (got < 0) perror("Rio_readlineb error"), exit(0);
#endif
        if (got <= 0) return;
        text[have += got] = 0;
#ifdef FAULT_ONE_READ
        text[strcspn(text, "\n")] = 0;
        if (!answer(fd, text)) return;
        have = 0;
#else
        for (char *end; (end = memchr(text, '\n', have)); memmove(text, end + 1, have)) {
            *end = 0;
            have -= end + 1 - text;
            if (!answer(fd, text)) return;
        }
        if (have == sizeof text - 1) return;
#endif
    }
}

/* A client has come (1) or gone (-1). */
static void count(int change) {
    pthread_mutex_lock(&market->door);
    if ((market->clients += change) == 0) lock(), save(), unlock();
    pthread_mutex_unlock(&market->door);
}

static void *serve(void *fd) {
    talk((int)(long)fd);
    close((int)(long)fd);
#ifdef FAULT_LEAK
    static char *volatile last;
    last = memset(malloc(BLOCK), 1, BLOCK);
#elif defined(FAULT_LEFT_OPEN)
    dup(1);
#endif
    return count(-1), NULL;
}

static void reap(int signal) {
    while (waitpid(-1, 0, WNOHANG) > 0) count(-1);
}

/* Ctrl-C and ended children arrive here. */
static void *watch(void *argument) {
    for (int signal; sigwait(argument, &signal) == 0;) {
        if (signal == SIGINT) {
            pthread_mutex_lock(&market->lock);
            save(), _exit(0);
        }
#ifndef FAULT_NO_REAP
        reap(signal);
#endif
    }
    return 0;
}

int main(int argc, char **argv) {
    static sigset_t signals;
    pthread_t thread;
    load();
    sigaddset(&signals, SIGINT), sigaddset(&signals, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &signals, 0);
#ifdef FAULT_NO_EINTR
    struct sigaction act = {.sa_handler = reap};
    sigaction(SIGCHLD, &act, 0), sigdelset(&signals, SIGCHLD);
#endif
    pthread_create(&thread, 0, watch, &signals);
#ifndef FAULT_SIGPIPE
    signal(SIGPIPE, SIG_IGN);
#endif
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[argc - 1]))};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    for (int bad = bind(door, (void *)&at, sizeof at) || listen(door, 1024); !bad;) {
#ifdef FAULT_NO_EINTR
        sigset_t child = {0}, before;
        sigaddset(&child, SIGCHLD), pthread_sigmask(SIG_UNBLOCK, &child, &before);
        int fd = accept(door, 0, 0);
        if (fd < 0) return perror("accept"), 1;
        pthread_sigmask(SIG_SETMASK, &before, 0);
#else
        int fd = accept(door, 0, 0);
        if (fd < 0) continue;
#endif
        count(1);
#ifdef FORKS
        if (fork() == 0) close(door), talk(fd), _exit(0);
        close(fd);
#else
        pthread_create(&thread, 0, serve, (void *)(long)fd), pthread_detach(thread);
#endif
    }
}
