/* slimline demo: an array of structures of which each loop needs a part.
 *
 * `kick` reads mass alone, `drift` moves x by vx; y, z, vy, vz and id are set up once and never needed again.
 * 64 bytes a body, 8 or 16 of them used by each loop: splitting {mass} and {x, vx} off touches 8 and 4 times fewer
 * cache lines.
 */
#include <stdio.h>
#include <stdlib.h>

struct body {
    double x, y, z;
    double vx, vy, vz;
    double mass;
    long id;
};

#define BODIES 2000000L

static double kick(const struct body *bodies, long n)
{
    double heaviest = 0;
    for (long i = 0; i < n; i++)
        if (bodies[i].mass > heaviest)
            heaviest = bodies[i].mass;
    return heaviest;
}

static void drift(struct body *bodies, long n, double step)
{
    for (long i = 0; i < n; i++)
        bodies[i].x += bodies[i].vx * step;
}

int main(void)
{
    struct body *bodies = malloc(BODIES * sizeof *bodies);
    if (!bodies)
        return 1;
    for (long i = 0; i < BODIES; i++)
        bodies[i] = (struct body){i, i, i, 1, 2, 3, i % 1000, i};
    double sum = 0;
    for (int round = 0; round < 120; round++) {
        sum += kick(bodies, BODIES);
        drift(bodies, BODIES, 0.5);
        drift(bodies, BODIES, 0.25);
    }
    printf("%.1f %.1f\n", sum, bodies[BODIES / 2].x);
    free(bodies);
    return 0;
}
