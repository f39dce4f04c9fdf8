// A single of 80 ms that three threads wait for, and two sections of 60 ms of which two threads have none.
#include <unistd.h>

int main(void) {
#pragma omp parallel num_threads(4)
    {
#pragma omp single
        usleep(80000);
#pragma omp sections
        {
#pragma omp section
            usleep(60000);
#pragma omp section
            usleep(60000);
        }
        // Else gcc leaves the waiting to the region's own barrier.
        usleep(0);
    }
}
