// Two threads that each have a team of two, of which each thread is 100 ms in a loop.
#include <omp.h>
#include <unistd.h>

int main(void) {
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
#pragma omp parallel num_threads(2)
        {
#pragma omp for schedule(dynamic, 1)
            for (int i = 0; i < 2; i++)
                usleep(100000);
        }
    }
}
