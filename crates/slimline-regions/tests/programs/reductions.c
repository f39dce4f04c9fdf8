// A reduction by tasks, which the runtime registers where the first word of a team's data leads. Prints 45.
#include <stdio.h>

int main(void) {
    int sum = 0;
#pragma omp parallel reduction(task, + : sum) num_threads(2)
    {
#pragma omp single
        for (int i = 0; i < 10; i++) {
#pragma omp task in_reduction(+ : sum)
            sum += i;
        }
    }
    printf("%d\n", sum);
    return 0;
}
