// Regions of a length that is asked for: short KIND ROUNDS WORK, by two threads. WORK is steps of a chain of multiplications, so that
// it takes as long whatever the clock says.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double work(long steps, double value) {
    for (long step = 0; step < steps; step++)
        value = value * 0.999999 + 0.000001;
    return value;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return fprintf(stderr, "usage: short none|parallel|loop|critical|task ROUNDS WORK\n"), 2;
    const char *kind = argv[1];
    long rounds = atol(argv[2]), steps = atol(argv[3]);
    double sum = 0;
    if (!strcmp(kind, "none"))
        for (long round = 0; round < rounds; round++)
            sum += work(steps, round);
    if (!strcmp(kind, "parallel"))
        for (long round = 0; round < rounds; round++) {
#pragma omp parallel num_threads(2) reduction(+ : sum)
            sum += work(steps, round);
        }
    if (!strcmp(kind, "loop")) {
#pragma omp parallel num_threads(2) reduction(+ : sum)
        for (long round = 0; round < rounds; round++) {
#pragma omp for schedule(dynamic, 1)
            for (int half = 0; half < 2; half++)
                sum += work(steps, round);
        }
    }
    if (!strcmp(kind, "critical")) {
        double all = 0;
#pragma omp parallel num_threads(2)
        for (long round = 0; round < rounds; round++) {
            double own = work(steps, round);
#pragma omp critical
            all += own;
        }
        sum = all;
    }
    if (!strcmp(kind, "task")) {
        double all = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
        for (long round = 0; round < 2 * rounds; round++) {
#pragma omp task shared(all)
            {
                double own = work(steps, round / 2);
#pragma omp atomic
                all += own;
            }
        }
        sum = all;
    }
    printf("%.3e\n", sum);
}
