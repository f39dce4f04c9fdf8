// All threads of a team meet their ends at once, by a fault each.
int main(void) {
#pragma omp parallel num_threads(4)
    {
#pragma omp barrier
        *(volatile int *)8 = 1;
    }
    return 0;
}
