/* The loop of `options.c` on io_uring: one multishot accept, receives into a ring of buffers, one
 * send for each request, one io_uring_enter for each turn. */
#include <linux/io_uring.h>
#include <sys/mman.h>

enum { ENTRIES = 256, BUFFERS = 256, BUFFER = 2048 };
enum { ACCEPT = 1, RECEIVE, SENT, CLOSED };
static int ring;
static unsigned *sq_head, *sq_tail, *sq_flags, *cq_head, *cq_tail, sq_mask, cq_mask, to_submit;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static struct io_uring_buf_ring *lent;
static char buffers[BUFFERS][BUFFER];

static void *map(size_t len, int fd, long offset) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (at == MAP_FAILED) die("mmap");
    return at;
}

static void must(int opcode, void *what, unsigned count, const char *name) {
    if (syscall(__NR_io_uring_register, ring, opcode, what, count)) die(name);
}

static void open_ring(void) {
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_SUBMIT_ALL};
    p.flags |= has[SQPOLL] ? IORING_SETUP_SQPOLL : IORING_SETUP_DEFER_TASKRUN;
    p.sq_thread_idle = 20;
    ring = (int)syscall(__NR_io_uring_setup, ENTRIES, &p);
    if (ring < 0) die("io_uring_setup");
    char *sq = map(p.sq_off.array + p.sq_entries * 4, ring, IORING_OFF_SQ_RING);
    char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof *cqes, ring, IORING_OFF_CQ_RING);
    sqes = map(p.sq_entries * sizeof *sqes, ring, IORING_OFF_SQES);
    sq_head = (unsigned *)(sq + p.sq_off.head), sq_tail = (unsigned *)(sq + p.sq_off.tail);
    sq_flags = (unsigned *)(sq + p.sq_off.flags);
    cq_head = (unsigned *)(cq + p.cq_off.head), cq_tail = (unsigned *)(cq + p.cq_off.tail);
    sq_mask = p.sq_entries - 1, cq_mask = p.cq_entries - 1;
    cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    for (unsigned i = 0; i < p.sq_entries; i++) ((unsigned *)(sq + p.sq_off.array))[i] = i;
    if (has[NAPI]) {
        struct { uint32_t usecs; uint8_t prefer, opcode, pad[2]; uint32_t param, rest; } busy = {
            SPIN, 1, 0, {0}, 0, 0};
        must(27 /* IORING_REGISTER_NAPI */, &busy, 1, "IORING_REGISTER_NAPI");
    }
    lent = map(BUFFERS * sizeof(struct io_uring_buf), -1, 0);
    struct io_uring_buf_reg group = {.ring_addr = (uintptr_t)lent, .ring_entries = BUFFERS};
    must(IORING_REGISTER_PBUF_RING, &group, 1, "IORING_REGISTER_PBUF_RING");
    for (uint16_t i = 0; i < BUFFERS; i++) {
        lent->bufs[i].addr = (uintptr_t)buffers[i], lent->bufs[i].len = BUFFER;
        lent->bufs[i].bid = i;
    }
    __atomic_store_n(&lent->tail, BUFFERS, __ATOMIC_RELEASE);
}

static void enter(unsigned wait) {
    unsigned flags = IORING_ENTER_GETEVENTS;
    __atomic_store_n(sq_tail, *sq_tail + to_submit, __ATOMIC_SEQ_CST);
    if (has[SQPOLL]) {
        /* The kernel's thread submits, unless it has gone to sleep. */
        if (__atomic_load_n(sq_flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
            flags |= IORING_ENTER_SQ_WAKEUP;
        else if (__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) != *cq_head) wait = flags = 0;
    }
    if (flags && syscall(__NR_io_uring_enter, ring, to_submit, wait, flags, NULL, 0) < 0)
        if (errno != EINTR && errno != EBUSY && errno != EAGAIN) die("io_uring_enter");
    to_submit = 0;
}

static struct io_uring_sqe *ask(int opcode, int kind, int fd) {
    while (*sq_tail + to_submit - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE) > sq_mask) enter(0);
    struct io_uring_sqe *entry = &sqes[(*sq_tail + to_submit++) & sq_mask];
    memset(entry, 0, sizeof *entry);
    entry->opcode = (uint8_t)opcode, entry->fd = fd;
    entry->user_data = (uint64_t)kind << 32 | (uint32_t)fd;
    return entry;
}

static void arm_receive(int fd) {
    struct io_uring_sqe *entry = ask(IORING_OP_RECV, RECEIVE, fd);
    if (has[SINGLE]) {
        /* A buffer of the connection's. */
        entry->addr = (uintptr_t)buffers[fd % BUFFERS], entry->len = BUFFER;
        return;
    }
    entry->flags = IOSQE_BUFFER_SELECT;
    entry->ioprio = IORING_RECV_MULTISHOT | (has[BUNDLE] ? 1 << 4 /* IORING_RECVSEND_BUNDLE */ : 0);
}

static void arm_accept(int listener) {
    ask(IORING_OP_ACCEPT, ACCEPT, listener)->ioprio = IORING_ACCEPT_MULTISHOT;
}

/* The reply never changes, so no send has to be awaited before the next. */
static void send_reply(int fd) {
    struct io_uring_sqe *entry = ask(has[SEND_ZC] ? IORING_OP_SEND_ZC : IORING_OP_SEND, SENT, fd);
    entry->addr = (uintptr_t)answer, entry->len = (unsigned)answer_len;
    entry->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
    if (has[SEND_ZC]) entry->ioprio = 1 << 3 /* IORING_SEND_ZC_REPORT_USAGE */;
}

static void received(int fd, const struct io_uring_cqe *cqe) {
    unsigned id = has[SINGLE] ? (unsigned)fd % BUFFERS : cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    if (cqe->res > 0 && is_request(buffers[id], cqe->res)) send_reply(fd);
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        struct io_uring_buf *slot = &lent->bufs[lent->tail & (BUFFERS - 1)];
        slot->addr = (uintptr_t)buffers[id], slot->len = BUFFER, slot->bid = (uint16_t)id;
        __atomic_store_n(&lent->tail, (uint16_t)(lent->tail + 1), __ATOMIC_RELEASE);
    }
    if (cqe->res <= 0 && cqe->res != -ENOBUFS) ask(IORING_OP_CLOSE, CLOSED, fd);
    else if (!(cqe->flags & IORING_CQE_F_MORE)) arm_receive(fd);
}

static void run_ring(int listener) {
    for (arm_accept(listener);;) {
        enter(1);
        unsigned head = *cq_head, tail = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
        for (; head != tail; head++) {
            const struct io_uring_cqe *cqe = &cqes[head & cq_mask];
            int kind = (int)(cqe->user_data >> 32), fd = (int)cqe->user_data;
            if (kind == ACCEPT) {
                if (cqe->res >= 0) arm_receive(cqe->res);
                if (!(cqe->flags & IORING_CQE_F_MORE)) arm_accept(listener);
            } else if (kind == RECEIVE) received(fd, cqe);
            else if (kind == SENT && cqe->flags & IORING_CQE_F_NOTIF) tell(cqe->res < 0);
        }
        __atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
    }
}
