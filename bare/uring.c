/* The io_uring loop that does nothing but serve: one multishot accept, one multishot receive per
 * connection into a ring of provided buffers, one send per connection and turn, one
 * io_uring_enter per turn. Raw system calls, so that nothing but the kernel's headers is needed.
 * A send with MSG_DONTWAIT completes inside the io_uring_enter that submits it, so one output
 * buffer serves all connections and no buffer has to wait for a completion. */
#define _GNU_SOURCE
#include "begin.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { SQES = 2048, CQES = 16384, BUFFERS = 512, BUFFER_LEN = 2048, GROUP = 0 };
enum { ARENA = 4 * (BUFFER_LEN / 5 + 2) * SHOW_MAX, ARENA_LOW = (BUFFER_LEN / 5 + 2) * SHOW_MAX };
enum { ACCEPT = 1, RECV, SEND, CLOSE };
_Static_assert((int)BUFFER_LEN <= (int)INPUT_MAX, "`fixed` answers a whole buffer");

static int ring, listener, works;
static unsigned *sq_tail, *sq_head, *cq_head, *cq_tail, sq_mask, cq_mask, queued;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static struct io_uring_buf_ring *lent;
static char buffers[BUFFERS][BUFFER_LEN] __attribute__((aligned(4096)));
static char arena[ARENA], *arena_end = arena;
static struct io_uring_sqe *last_send; /* of this turn; its connection may extend it */

static void enter(unsigned wait) {
    last_send = NULL;
    __atomic_store_n(sq_tail, *sq_tail + queued, __ATOMIC_RELEASE);
    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING;
    while (syscall(__NR_io_uring_enter, ring, *sq_tail - *sq_head, wait, flags, NULL, 0) < 0)
        if (errno != EINTR && errno != EBUSY && errno != EAGAIN) die("io_uring_enter");
    queued = 0;
    arena_end = arena;
}

/* The user data of an operation: its kind, the connection's generation, the number of bytes that a
 * send should send (modulo 2^24), the descriptor. */
static inline uint64_t tag(int kind, int fd, uint32_t len) {
    uint64_t generation = (uint64_t)conns[fd].generation << 40;
    return (uint64_t)kind << 56 | generation | (uint64_t)(len & 0xFFFFFF) << 16 | (uint32_t)fd;
}

static inline struct io_uring_sqe *sqe(int opcode, int kind, int fd) {
    if (queued == SQES) enter(0);
    struct io_uring_sqe *entry = &sqes[(*sq_tail + queued++) & sq_mask];
    memset(entry, 0, sizeof *entry);
    entry->opcode = (uint8_t)opcode;
    entry->fd = fd;
    entry->user_data = tag(kind, fd, 0);
    return entry;
}

static void arm_accept(void) {
    struct io_uring_sqe *entry = sqe(IORING_OP_ACCEPT, ACCEPT, listener);
    entry->ioprio = IORING_ACCEPT_MULTISHOT;
    entry->accept_flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
}

static void arm_recv(int fd) {
    struct io_uring_sqe *entry = sqe(IORING_OP_RECV, RECV, fd);
    entry->ioprio = IORING_RECV_MULTISHOT;
    entry->flags = IOSQE_BUFFER_SELECT;
    entry->buf_group = GROUP;
}

static inline void send_to(int fd, const char *from, size_t len) {
    /* Replies to several buffers of one connection are contiguous, so they are one send. */
    if (!last_send || last_send->fd != fd) {
        last_send = sqe(IORING_OP_SEND, SEND, fd);
        last_send->addr = (uint64_t)(uintptr_t)from;
        last_send->msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    }
    last_send->len += (uint32_t)len;
    last_send->user_data = tag(SEND, fd, last_send->len);
}

/* Answers one received buffer. Returns 0 when the connection has to end. */
static inline int serve(int fd, const char *in, size_t len) {
    if (!works) {
        size_t count = newlines(in, len);
        if (last_send && last_send->fd == fd && last_send->len + count * BOUGHT_LEN > sizeof fixed)
            last_send = NULL;
        if (count) send_to(fd, fixed, count * BOUGHT_LEN);
        return 1;
    }
    if (arena + ARENA - arena_end < ARENA_LOW) enter(0);
    char *start = arena_end, *end = work(&conns[fd], in, len, start);
    if (!end) return 0;
    arena_end = end;
    if (end > start) send_to(fd, start, (size_t)(end - start));
    return 1;
}

static inline void received(int fd, const struct io_uring_cqe *cqe, uint16_t *lent_tail) {
    int keeps = 1;
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        uint16_t id = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
        if (cqe->res > 0) keeps = serve(fd, buffers[id], (size_t)cqe->res);
        struct io_uring_buf *slot = &lent->bufs[(*lent_tail)++ & (BUFFERS - 1)];
        slot->addr = (uint64_t)(uintptr_t)buffers[id];
        slot->len = BUFFER_LEN - SLACK;
        slot->bid = id;
    }
    if (cqe->flags & IORING_CQE_F_MORE) {
        if (!keeps) shutdown(fd, SHUT_RDWR); /* the receive then ends by itself */
    } else if (keeps && (cqe->res > 0 || cqe->res == -ENOBUFS)) {
        arm_recv(fd);
    } else {
        sqe(IORING_OP_CLOSE, CLOSE, fd)->flags = IOSQE_CQE_SKIP_SUCCESS;
        last_send = NULL;
    }
}

static void accepted(const struct io_uring_cqe *cqe) {
    int fd = cqe->res;
    if (fd >= FDS_MAX) close(fd);
    else if (fd >= 0) {
        conns[fd].tail_len = 0;
        conns[fd].generation++;
        arm_recv(fd);
    }
    if (!(cqe->flags & IORING_CQE_F_MORE)) arm_accept();
}

/* A short or refused send: the peer does not read. Its receive then ends by itself. */
static inline void sent(int fd, const struct io_uring_cqe *cqe) {
    if (cqe->user_data != tag(SEND, fd, (uint32_t)cqe->res) && cqe->res != -EPIPE
        && cqe->user_data >> 40 == tag(SEND, fd, 0) >> 40)
        shutdown(fd, SHUT_RDWR);
}

static void turn(void) {
    uint16_t lent_tail = lent->tail;
    unsigned head = *cq_head, tail = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
    for (; head != tail; head++) {
        const struct io_uring_cqe *cqe = &cqes[head & cq_mask];
        int fd = (uint16_t)cqe->user_data, kind = (int)(cqe->user_data >> 56);
        if (kind == RECV) received(fd, cqe, &lent_tail);
        else if (kind == SEND) sent(fd, cqe);
        else if (kind == ACCEPT) accepted(cqe);
    }
    __atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
    __atomic_store_n(&lent->tail, lent_tail, __ATOMIC_RELEASE);
}

static void *map(size_t len, int fd, off_t offset) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (at == MAP_FAILED) die("mmap of the ring");
    return at;
}

static void set_up(void) {
    struct io_uring_params p = {.cq_entries = CQES};
    p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE
              | IORING_SETUP_SUBMIT_ALL;
    int fd = (int)syscall(__NR_io_uring_setup, SQES, &p);
    if (fd < 0) die("io_uring_setup (DEFER_TASKRUN needs Linux 6.1 and an allowed io_uring)");
    char *sq = map(p.sq_off.array + p.sq_entries * 4, fd, IORING_OFF_SQ_RING);
    char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof *cqes, fd, IORING_OFF_CQ_RING);
    sqes = map(p.sq_entries * sizeof *sqes, fd, IORING_OFF_SQES);
    sq_head = (unsigned *)(sq + p.sq_off.head), sq_tail = (unsigned *)(sq + p.sq_off.tail);
    cq_head = (unsigned *)(cq + p.cq_off.head), cq_tail = (unsigned *)(cq + p.cq_off.tail);
    sq_mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    cq_mask = *(unsigned *)(cq + p.cq_off.ring_mask);
    cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    for (unsigned i = 0; i < p.sq_entries; i++) ((unsigned *)(sq + p.sq_off.array))[i] = i;
    struct io_uring_rsrc_update own = {.offset = -1U, .data = (uint64_t)fd};
    if (syscall(__NR_io_uring_register, fd, IORING_REGISTER_RING_FDS, &own, 1) != 1)
        die("IORING_REGISTER_RING_FDS");
    ring = (int)own.offset;
    lent = map(BUFFERS * sizeof(struct io_uring_buf), -1, 0);
    struct io_uring_buf_reg group = {.ring_addr = (uint64_t)(uintptr_t)lent,
                                     .ring_entries = BUFFERS, .bgid = GROUP};
    if (syscall(__NR_io_uring_register, fd, IORING_REGISTER_PBUF_RING, &group, 1))
        die("IORING_REGISTER_PBUF_RING");
    for (uint16_t i = 0; i < BUFFERS; i++) {
        lent->bufs[i].addr = (uint64_t)(uintptr_t)buffers[i];
        lent->bufs[i].len = BUFFER_LEN - SLACK;
        lent->bufs[i].bid = i;
    }
    __atomic_store_n(&lent->tail, BUFFERS, __ATOMIC_RELEASE);
}

int main(int argc, char **argv) {
    listener = begin(argc, argv, &works);
    set_up();
    arm_accept();
    for (;;) {
        enter(1);
        turn();
    }
}
