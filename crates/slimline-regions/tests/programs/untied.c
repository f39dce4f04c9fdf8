// An untied task that is suspended a hundred times is executed once; so is each that it creates.
#include <stdio.h>

int main(void) {
    int sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp task untied shared(sum)
    for (int i = 0; i < 100; i++) {
#pragma omp task shared(sum)
#pragma omp atomic
        sum++;
#pragma omp taskyield
    }
    printf("%d\n", sum);
    return 0;
}
