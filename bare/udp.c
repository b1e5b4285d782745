/* The bare senders: equal packets by the clock, with nothing but the calls that send them.
 *
 *   udp sender=sendmmsg streams=1000 packets=100 gap_us=30000 payload=32 to=10.99.0.2:9
 *
 * It takes the arguments of `roundhouse senders rate` and prints a line of figures, so that both
 * send the same schedule of the same bytes. There is no timer wheel: streams of one gap take
 * turns, so the next packet is one more than the last, and finding it costs an addition. No server
 * of different streams can cost less than that. */
#define _GNU_SOURCE
#include "packets.h"
#include <netinet/udp.h>
#include <pthread.h>
#include <sys/sendfile.h>

enum { SEGMENTS_MAX = 64, CONTROL = CMSG_SPACE(sizeof(uint16_t)) };

static struct mmsghdr messages[TURN_MAX];
static struct iovec pieces[TURN_MAX][2];
static char controls[TURN_MAX][CONTROL] __attribute__((aligned(8)));

/* A read of the file and a sendto, or a copy and a sendto. */
static int each_sendto(uint64_t first, int count) {
    char bytes[DATAGRAM_MAX];
    for (int i = 0; i < count; i++) {
        struct place place = place_of(first + (uint64_t)i);
        head_of(place, bytes);
        if (!file) memcpy(bytes + HEAD, contents + place.at, payload);
        else if (pread(fd_file, bytes + HEAD, payload, (off_t)place.at) != (ssize_t)payload)
            die("pread");
        count_call(sendto(fd_udp, bytes, HEAD + payload, 0, (void *)&to, sizeof to), 1 + file, 1);
    }
    return count;
}

/* A header sent with MSG_MORE, then the file's pages. */
static int each_sendfile(uint64_t first, int count) {
    for (int i = 0; i < count; i++) {
        struct place place = place_of(first + (uint64_t)i);
        char head[HEAD];
        off_t at = (off_t)place.at;
        head_of(place, head);
        ssize_t sent = sendto(fd_udp, head, HEAD, MSG_MORE, (void *)&to, sizeof to);
        if (sent == HEAD) sent = sendfile(fd_udp, fd_file, &at, payload);
        count_call(sent, 2, 1);
    }
    return count;
}

/* Turns `count` packets into messages. If the kernel segments them, consecutive packets share one.
 * Returns the number of messages. */
static int gather(uint64_t first, int count, int cut, int *held) {
    int most = (int)(DATAGRAM_MAX / (HEAD + payload)), used = 0, pieced = 0;
    most = !cut ? 1 : most < SEGMENTS_MAX ? most : SEGMENTS_MAX;
    for (int i = 0; i < count; used++) {
        struct msghdr *message = &messages[used].msg_hdr;
        *message = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to};
        message->msg_iov = pieces[pieced];
        int in = 0;
        for (; i < count && in < most; i++, in++, pieced++) {
            struct place place = place_of(first + (uint64_t)i);
            head_of(place, heads[pieced]);
            pieces[pieced][0] = (struct iovec){heads[pieced], HEAD};
            pieces[pieced][1] = (struct iovec){contents + place.at, payload};
        }
        message->msg_iovlen = 2 * (size_t)in;
        held[used] = in;
        if (in == 1) continue;
        message->msg_control = controls[used], message->msg_controllen = CONTROL;
        struct cmsghdr *control = CMSG_FIRSTHDR(message);
        control->cmsg_level = SOL_UDP, control->cmsg_type = UDP_SEGMENT;
        control->cmsg_len = CMSG_LEN(sizeof(uint16_t));
        *(uint16_t *)(void *)CMSG_DATA(control) = (uint16_t)(HEAD + payload);
    }
    return used;
}

/* Both halves of a packet from their own memory: a call for each message, or one for all. */
static int messages_of(uint64_t first, int count, int cut, int together) {
    static int held[TURN_MAX];
    int used = gather(first, count, cut, held);
    for (int at = 0; at < used;) {
        int took = together ? sendmmsg(fd_udp, messages + at, (unsigned)(used - at), 0)
                            : (int)sendmsg(fd_udp, &messages[at].msg_hdr, 0) >= 0 ? 1 : -1;
        int packets = 0;
        for (int i = 0; i < (took < 0 ? 1 : took); i++) packets += held[at + i];
        count_call(took, 1, packets);
        at += took < 0 ? 1 : took;
    }
    return count;
}

static int wheel_mmap(uint64_t first, int count) { return messages_of(first, count, 0, 0); }
static int many(uint64_t first, int count) { return messages_of(first, count, 0, 1); }
static int gso(uint64_t first, int count) { return messages_of(first, count, 1, 0); }
static int many_gso(uint64_t first, int count) { return messages_of(first, count, 1, 1); }

/* A thread for one stream: read, send, sleep for the gap or until the next moment. */
static int is_absolute;
static void *one(void *number) {
    uint64_t stream = (uint64_t)(uintptr_t)number;
    for (uint64_t beat = 0; beat < packets / burst; beat++) {
        uint64_t first = (beat * streams + stream) * burst;
        if (is_absolute || !beat) sleep_until(due(first));
        else sleep_for(gap_ns);
        each_sendto(first, (int)burst);
        note_late(first, (int)burst);
    }
    return NULL;
}

static void threads(void) {
    pthread_t *all = calloc(streams, sizeof *all);
    pthread_attr_t small;
    if (!all || pthread_attr_init(&small) || pthread_attr_setstacksize(&small, 256 << 10))
        die("a list of threads");
    for (uint64_t i = 0; i < streams; i++)
        if (pthread_create(&all[i], &small, one, (void *)(uintptr_t)i)) die("pthread_create");
    for (uint64_t i = 0; i < streams; i++) pthread_join(all[i], NULL);
    free(all);
}

static const struct { const char *name; turn_fn *send; } ways[] = {
    {"plain", NULL}, {"plain-abs", NULL}, {"wheel-sendto", each_sendto}, {"wheel-mmap", wheel_mmap},
    {"sendmmsg", many}, {"gso", gso}, {"sendmmsg+gso", many_gso}, {"sendfile", each_sendfile},
};

int main(int argc, char **argv) {
    begin(argc, argv);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, sender)) continue;
        if (ways[i].send == each_sendfile && !file) usage("sendfile wants file=1");
        start_clock();
        is_absolute = i == 1;
        if (ways[i].send) turns(ways[i].send);
        else threads();
        return print_line();
    }
    usage("expected sender=plain, plain-abs, wheel-sendto, wheel-mmap, sendmmsg, gso, "
          "sendmmsg+gso or sendfile");
}
