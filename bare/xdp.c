/* HTTP past the kernel's TCP: each segment is answered from its own bytes, without a state. The
 * floor under the engine `bypass`: frames by AF_XDP (copied), no retransmission, no windows.
 *
 * xdp INTERFACE ADDRESS PORT [busy], with an address that the kernel does not have, and queue 0;
 * with `busy` a wait first polls the device for 50 us. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRAME = 2048, FRAMES = 2048 };
struct ring { uint32_t *producer, *consumer; void *entries; uint32_t at; };
static struct ring came, go, fill, gone;
static uint8_t mac[6], *memory;
static const char ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

static void die(const char *what) { perror(what); exit(1); }

static long bpf(int command, union bpf_attr *attributes) {
    long done = syscall(SYS_bpf, command, attributes, sizeof *attributes);
    if (done < 0) die("bpf");
    return done;
}

static struct bpf_insn op(int code, int to, int from, int offset, int value) {
    return (struct bpf_insn){code, to, from, offset, value};
}

/* Puts a program on the interface that redirects ARP and TCP for the address, and nothing else. */
static int steer(int device, int xsk, uint32_t address, uint16_t port) {
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4};
    map.max_entries = 1;
    int table = bpf(BPF_MAP_CREATE, &map), zero = 0;
    union bpf_attr put = {.map_fd = table, .key = (uintptr_t)&zero, .value = (uintptr_t)&xsk};
    bpf(BPF_MAP_UPDATE_ELEM, &put);
    uint16_t *half = (uint16_t *)&address;
    enum { H = BPF_LDX | BPF_MEM | BPF_H, B = BPF_LDX | BPF_MEM | BPF_B, W = BPF_LDX | BPF_MEM };
    enum { DIFFERS = BPF_JMP | BPF_JNE, EQUAL = BPF_JMP | BPF_JEQ, SET = BPF_ALU64 | BPF_MOV };
    struct bpf_insn code[] = {
        op(SET | BPF_X, 6, 1, 0, 0), op(W, 2, 1, 0, 0), op(W, 3, 1, 4, 0),
        op(SET | BPF_X, 4, 2, 0, 0), op(BPF_ALU64 | BPF_ADD, 4, 0, 0, 42),
        op(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 21, 0),
        op(H, 0, 2, 12, 0), op(EQUAL, 0, 0, 9, htons(0x0806)), op(DIFFERS, 0, 0, 18, htons(0x0800)),
        op(B, 0, 2, 23, 0), op(DIFFERS, 0, 0, 16, 6),
        op(H, 0, 2, 30, 0), op(DIFFERS, 0, 0, 14, half[0]),
        op(H, 0, 2, 32, 0), op(DIFFERS, 0, 0, 12, half[1]),
        op(H, 0, 2, 36, 0), op(EQUAL, 0, 0, 4, htons(port)),
        op(H, 0, 2, 38, 0), op(DIFFERS, 0, 0, 8, half[0]),
        op(H, 0, 2, 40, 0), op(DIFFERS, 0, 0, 6, half[1]),
        op(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, table), op(0, 0, 0, 0, 0),
        op(W, 2, 6, 16, 0), op(SET, 3, 0, 0, XDP_PASS),
        op(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map), op(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
        op(SET, 0, 0, 0, XDP_PASS), op(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)code};
    load.insn_cnt = sizeof code / sizeof *code, load.license = (uintptr_t) "GPL";
    union bpf_attr link = {.link_create = {.prog_fd = bpf(BPF_PROG_LOAD, &load)}};
    link.link_create.target_ifindex = device, link.link_create.attach_type = BPF_XDP;
    return bpf(BPF_LINK_CREATE, &link);
}

static struct ring map(int fd, int option, struct xdp_ring_offset offset, off_t page, int entry) {
    int size = FRAMES;
    if (setsockopt(fd, SOL_XDP, option, &size, sizeof size)) die("a ring");
    size_t len = offset.desc + (size_t)FRAMES * entry;
    char *start = mmap(0, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
    if (start == MAP_FAILED) die("mmap");
    return (struct ring){(void *)(start + offset.producer), (void *)(start + offset.consumer),
                         start + offset.desc, 0};
}

/* A socket on queue 0, with all frames of the first half to receive into. */
static int open_queue(int device) {
    int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0) die("AF_XDP");
    int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    memory = mmap(0, 2 * FRAMES * FRAME, access, flags, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    struct xdp_umem_reg umem = {.addr = (uintptr_t)memory, .len = 2 * FRAMES * FRAME};
    umem.chunk_size = FRAME;
    if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem)) die("XDP_UMEM_REG");
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof at;
    if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len)) die("XDP_MMAP_OFFSETS");
    fill = map(fd, XDP_UMEM_FILL_RING, at.fr, XDP_UMEM_PGOFF_FILL_RING, 8);
    gone = map(fd, XDP_UMEM_COMPLETION_RING, at.cr, XDP_UMEM_PGOFF_COMPLETION_RING, 8);
    came = map(fd, XDP_RX_RING, at.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
    go = map(fd, XDP_TX_RING, at.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
    for (; fill.at < FRAMES; fill.at++) ((uint64_t *)fill.entries)[fill.at] = fill.at * FRAME;
    __atomic_store_n(fill.producer, fill.at, __ATOMIC_RELEASE);
    struct sockaddr_xdp name = {.sxdp_family = AF_XDP, .sxdp_ifindex = device};
    name.sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP;
    if (bind(fd, (struct sockaddr *)&name, sizeof name)) die("bind");
    return fd;
}

static void poll_busily(int fd) {
    int is_preferred = 1, usecs = 50, budget = 64;
    if (setsockopt(fd, SOL_SOCKET, 69 /* SO_PREFER_BUSY_POLL */, &is_preferred, 4)
        || setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &usecs, 4)
        || setsockopt(fd, SOL_SOCKET, 70 /* SO_BUSY_POLL_BUDGET */, &budget, 4)) die("busy");
}

static uint32_t sum(const uint8_t *bytes, int len, uint32_t sum) {
    for (; len > 1; bytes += 2, len -= 2) sum += bytes[0] << 8 | bytes[1];
    return len ? sum + (bytes[0] << 8) : sum;
}

static void seal(uint8_t *at, uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    at[0] = ~sum >> 8, at[1] = ~sum;
}

static void put32(uint8_t *at, uint32_t value) { value = htonl(value), memcpy(at, &value, 4); }
static uint32_t get32(const uint8_t *at) { return ntohl(*(uint32_t *)at); }

/* Makes the answer to a frame; returns its length, or 0. */
static int answer(const uint8_t *in, uint8_t *out) {
    memcpy(out, in + 6, 6), memcpy(out + 6, mac, 6), memcpy(out + 12, in + 12, 2);
    if (in[13] == 6) {
        memcpy(out + 14, in + 14, 6), out[20] = 0, out[21] = 2, memcpy(out + 22, mac, 6);
        memcpy(out + 28, in + 38, 4), memcpy(out + 32, in + 22, 10);
        return 42;
    }
    int head = in[46] >> 4 << 2, data = (in[16] << 8 | in[17]) - 20 - head, flags = in[47], len = 0;
    int is_asked = data > 3 && !memcmp(in + 34 + head + data - 4, "\r\n\r\n", 4);
    /* ACK; SYN and FIN come back, and a segment that only acknowledges has no answer. */
    if (flags & 4 || !(data || flags & 3)) return 0;
    if (is_asked) len = sizeof ANSWER - 1, memcpy(out + 54, ANSWER, len);
    static const uint8_t IP[] = {0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0};
    memcpy(out + 14, IP, sizeof IP), out[16] = (40 + len) >> 8, out[17] = 40 + len;
    memcpy(out + 26, in + 30, 4), memcpy(out + 30, in + 26, 4);
    seal(out + 24, sum(out + 14, 20, 0));
    memcpy(out + 34, in + 36, 2), memcpy(out + 36, in + 34, 2);
    put32(out + 38, get32(in + 42)), put32(out + 42, get32(in + 38) + data + !!(flags & 3));
    out[46] = 0x50, out[47] = 0x10 | (flags & 3), out[48] = out[49] = 0xff;
    memset(out + 50, 0, 4), seal(out + 50, sum(out + 26, 28 + len, 6 + 20 + len));
    return 54 + len;
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: xdp INTERFACE ADDRESS PORT [busy]\n"), 2;
    int device = if_nametoindex(argv[1]), fd = open_queue(device);
    if (argc > 4) poll_busily(fd);
    struct ifreq ask = {0};
    strncpy(ask.ifr_name, argv[1], IFNAMSIZ - 1);
    if (ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCGIFHWADDR, &ask)) die("the interface");
    memcpy(mac, ask.ifr_hwaddr.sa_data, 6);
    steer(device, fd, inet_addr(argv[2]), atoi(argv[3]));
    printf("{\"listening\": \"%s:%s\"}\n", argv[2], argv[3]), fflush(stdout);
    struct xdp_desc *in = came.entries, *out = go.entries;
    for (struct pollfd wait = {fd, POLLIN, 0};;) {
        /* Also makes the kernel send. */
        poll(&wait, 1, -1);
        __atomic_store_n(gone.consumer, __atomic_load_n(gone.producer, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
        uint32_t end = __atomic_load_n(came.producer, __ATOMIC_ACQUIRE);
        for (; came.at != end; came.at++) {
            struct xdp_desc frame = in[came.at % FRAMES];
            uint32_t place = (FRAMES + go.at % FRAMES) * FRAME;
            int len = answer(memory + frame.addr, memory + place);
            if (len) out[go.at++ % FRAMES] = (struct xdp_desc){place, len, 0};
            ((uint64_t *)fill.entries)[fill.at++ % FRAMES] = frame.addr / FRAME * FRAME;
        }
        __atomic_store_n(came.consumer, came.at, __ATOMIC_RELEASE);
        __atomic_store_n(fill.producer, fill.at, __ATOMIC_RELEASE);
        __atomic_store_n(go.producer, go.at, __ATOMIC_RELEASE);
    }
}
