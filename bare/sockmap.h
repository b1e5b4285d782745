/* Local connections joined socket to socket: what one end sends goes into the receive queue of the
 * other, past TCP and IP. A program on a cgroup enters each new connection of its processes into a
 * map, under both ports; a program on the map sends each message to the entry with the ports
 * swapped. The cgroup is `roundhouse-options`; the generator must be in it, too. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CGROUP "/sys/fs/cgroup/unified/roundhouse-options"

static void die(const char *what) { perror(what); exit(1); }

static int bpf(int command, union bpf_attr *attributes) {
    long done = syscall(SYS_bpf, command, attributes, sizeof *attributes);
    if (done < 0) die("bpf");
    return (int)done;
}

static struct bpf_insn op(int code, int to, int from, int offset, int value) {
    return (struct bpf_insn){(uint8_t)code, to & 15, from & 15, (int16_t)offset, value};
}

static int load(int type, int attach_type, struct bpf_insn *code, size_t len) {
    union bpf_attr load = {.prog_type = (unsigned)type, .insns = (uintptr_t)code};
    load.insn_cnt = (unsigned)len, load.license = (uintptr_t) "GPL";
    load.expected_attach_type = (unsigned)attach_type;
    return bpf(BPF_PROG_LOAD, &load);
}

static void attach(int program, int to, int type) {
    union bpf_attr attach = {.target_fd = (unsigned)to, .attach_bpf_fd = (unsigned)program};
    attach.attach_type = (unsigned)type;
    bpf(BPF_PROG_ATTACH, &attach);
}

static void join_sockets(void) {
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_SOCKHASH, .key_size = 8, .value_size = 4};
    map.max_entries = 4096;
    int table = bpf(BPF_MAP_CREATE, &map);
    enum { W = BPF_LDX | BPF_MEM | BPF_W, STORE = BPF_STX | BPF_MEM | BPF_W };
    enum { SET = BPF_ALU64 | BPF_MOV, SWAP = BPF_ALU | BPF_END | BPF_TO_BE };
    enum { CALL = BPF_JMP | BPF_CALL };
    enum { LOCAL = -8, REMOTE = -4, FRAME = 10 };
    struct bpf_insn enters[] = {
        op(W, 2, 1, offsetof(struct bpf_sock_ops, op), 0),
        op(BPF_JMP | BPF_JEQ, 2, 0, 1, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB),
        op(BPF_JMP | BPF_JNE, 2, 0, 11, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB),
        op(W, 2, 1, offsetof(struct bpf_sock_ops, local_port), 0), op(STORE, FRAME, 2, LOCAL, 0),
        op(W, 2, 1, offsetof(struct bpf_sock_ops, remote_port), 0), op(SWAP, 2, 0, 0, 32),
        op(STORE, FRAME, 2, REMOTE, 0),
        op(BPF_LD | BPF_IMM | BPF_DW, 2, BPF_PSEUDO_MAP_FD, 0, table), op(0, 0, 0, 0, 0),
        op(SET | BPF_X, 3, FRAME, 0, 0), op(BPF_ALU64 | BPF_ADD, 3, 0, 0, LOCAL),
        op(SET, 4, 0, 0, BPF_ANY), op(CALL, 0, 0, 0, BPF_FUNC_sock_hash_update),
        op(SET, 0, 0, 0, 1), op(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    struct bpf_insn sends[] = {
        op(W, 2, 1, offsetof(struct sk_msg_md, remote_port), 0), op(SWAP, 2, 0, 0, 32),
        op(STORE, FRAME, 2, LOCAL, 0),
        op(W, 2, 1, offsetof(struct sk_msg_md, local_port), 0), op(STORE, FRAME, 2, REMOTE, 0),
        op(BPF_LD | BPF_IMM | BPF_DW, 2, BPF_PSEUDO_MAP_FD, 0, table), op(0, 0, 0, 0, 0),
        op(SET | BPF_X, 3, FRAME, 0, 0), op(BPF_ALU64 | BPF_ADD, 3, 0, 0, LOCAL),
        op(SET, 4, 0, 0, BPF_F_INGRESS), op(CALL, 0, 0, 0, BPF_FUNC_msg_redirect_hash),
        /* Without an entry the message goes its usual way. */
        op(SET, 0, 0, 0, SK_PASS), op(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    if (mkdir(CGROUP, 0755) && errno != EEXIST) die(CGROUP);
    int group = open(CGROUP, O_DIRECTORY | O_CLOEXEC);
    int procs = open(CGROUP "/cgroup.procs", O_WRONLY);
    if (group < 0 || procs < 0 || write(procs, "0", 1) != 1) die(CGROUP);
    close(procs);
    size_t len = sizeof sends / sizeof *sends;
    int program = load(BPF_PROG_TYPE_SK_MSG, BPF_SK_MSG_VERDICT, sends, len);
    attach(program, table, BPF_SK_MSG_VERDICT);
    len = sizeof enters / sizeof *enters;
    program = load(BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS, enters, len);
    attach(program, group, BPF_CGROUP_SOCK_OPS);
}
