// Allocation-heavy: a table of messages of mixed sizes, each replaced at random by a new one. For the overhead bench.

#include "truth.h"

#include <string.h>

#define SLOTS 65536

struct message {
    struct message *reply_to;
    unsigned length;
    unsigned sum;
    unsigned char text[];
};

static struct message *slots[SLOTS];

static struct message *new_message(uint64_t random)
{
    unsigned length = 8 + (random & 15 ? random >> 20 & 127 : random >> 20 & 2047);
    struct message *message = malloc(sizeof *message + length);
    message->reply_to = slots[random >> 40 & (SLOTS - 1)];
    message->length = length;
    message->sum = (unsigned)random;
    memset(message->text, (int)(random & 255), length);
    return message;
}

int main(int argc, char **argv)
{
    long replacements = argument(argc, argv, 1, 10000000);
    uint64_t random = 88172645463325252u;
    unsigned sum = 0;
    for (long i = 0; i < replacements; i++) {
        struct message **slot = &slots[next_random(&random) & (SLOTS - 1)];
        if (*slot) {
            sum = sum * 31 + (*slot)->sum + (*slot)->text[(*slot)->length / 2];
            free(*slot);
            *slot = NULL;
        }
        *slot = new_message(next_random(&random));
    }
    printf("%u\n", sum);
    for (long i = 0; i < SLOTS; i++)
        free(slots[i]);
    return 0;
}
