// Combined constructs: two loops of 12 iterations, three sections, and what the compiler calls for them.
#include <stdio.h>

int main(void) {
    int counted[3] = {0};
#pragma omp parallel for schedule(dynamic, 2) num_threads(3)
    for (int i = 0; i < 12; i++) {
#pragma omp atomic
        counted[0]++;
    }
#pragma omp parallel for schedule(runtime) num_threads(3)
    for (unsigned long long i = 0; i < 12; i++) {
#pragma omp critical
        counted[1]++;
    }
#pragma omp parallel sections num_threads(3)
    {
#pragma omp section
#pragma omp critical
        counted[2] += 1;
#pragma omp section
#pragma omp critical
        counted[2] += 10;
#pragma omp section
#pragma omp critical
        counted[2] += 100;
    }
    printf("%d %d %d\n", counted[0], counted[1], counted[2]);
}
