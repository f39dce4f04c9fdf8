// Four iterations of 25, 50, 75 and 100 ms, one a thread: waits of 75, 50, 25 and 0 ms at the loop's end.
#include <unistd.h>

int main(void) {
#pragma omp parallel num_threads(4)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 1; i <= 4; i++)
            usleep(25000 * i);
        // Else gcc leaves the waiting to the region's own barrier.
        usleep(0);
    }
}
