// Mappings that the kernel's drivers supply: /dev/zero, the rings of io_uring and of a packet socket, the clock's vvar page.

#include "torture.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

int main(void)
{
    uint64_t sum = 1, ordered = 0;
    int zero = open("/dev/zero", O_RDWR);
    CHECK(zero >= 0);
    uint64_t *zeros = mmap(NULL, 64 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
    CHECK(zeros != MAP_FAILED);
    sum = worked(zeros, 64 * PAGE_BYTES / 8, 1000000, sum);

    struct io_uring_params parameters = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 64, &parameters);
    if (ring >= 0) {
        uint32_t *entries = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
        CHECK(entries != MAP_FAILED);
        for (int i = 0; i < 1000000; i++)
            sum = mixed(sum, ((volatile uint32_t *)entries)[0]);
    }
    int packets = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_LOOPBACK));
    struct tpacket_req request = {.tp_block_size = 4 * PAGE_BYTES, .tp_block_nr = 2, .tp_frame_size = 2048, .tp_frame_nr = 16};
    if (packets >= 0 && setsockopt(packets, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) == 0) {
        uint32_t *frames = mmap(NULL, 8 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, packets, 0);
        CHECK(frames != MAP_FAILED);
        for (int i = 0; i < 1000000; i++)
            sum = mixed(sum, ((volatile uint32_t *)frames)[(i & 15) * 512] & ~1u);
    }
    struct timespec last = {0}, now;
    for (int i = 0; i < 2000000; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        ordered += now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec);
        last = now;
    }
    printf("%lx %lu\n", sum, ordered);
    return 0;
}
