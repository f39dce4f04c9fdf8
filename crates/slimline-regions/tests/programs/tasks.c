// Eight tasks of 20 ms by four threads, created in a single, with data that is copied; then a taskwait.
#include <stdio.h>
#include <unistd.h>

int main(void) {
    long sum = 0;
#pragma omp parallel num_threads(4)
    {
#pragma omp single
        {
            for (long i = 1; i <= 8; i++) {
#pragma omp task firstprivate(i) shared(sum)
                {
                    usleep(20000);
#pragma omp atomic
                    sum += i;
                }
            }
#pragma omp taskwait
        }
    }
    printf("%ld\n", sum);
}
