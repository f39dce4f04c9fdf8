#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>
enum { N = 70, M = 30, K = 11 };
static double a[N][K], b[K][M];
__attribute__((noinline)) static void fill(void) {
    for (int i = 0; i < N; i++) for (int k = 0; k < K; k++) a[i][k] = i + k;
    for (int k = 0; k < K; k++) for (int j = 0; j < M; j++) b[k][j] = k - j;
}
__attribute__((noinline)) static void *multiply(void *result) {
    double (*c)[M] = result;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
    return NULL;
}
static double results[4][N][M];
int main(int argc, char **argv) {
    fill();
    if (!strcmp(argv[1], "threads")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, multiply, results[i]);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    } else if (!strcmp(argv[1], "fork")) {
        if (fork() == 0) { multiply(results[0]); _exit(0); }
        wait(NULL);
        multiply(results[1]);
    } else if (!strcmp(argv[1], "exec")) {
        multiply(results[0]);
        execl("/proc/self/exe", "program", "once", NULL);
    } else if (!strcmp(argv[1], "kill")) {
        multiply(results[0]);
        kill(getpid(), SIGKILL);
    } else {
        multiply(results[0]);
    }
}
