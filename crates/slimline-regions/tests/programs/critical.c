// Four threads wait for a critical section whose body sleeps 50 ms.
// bodyT 50 ms on each thread, enterT 0, 50, 100 and 150 ms in some order.
#include <unistd.h>

int main(void) {
#pragma omp parallel num_threads(4)
    {
#pragma omp critical
        usleep(50000);
    }
}
