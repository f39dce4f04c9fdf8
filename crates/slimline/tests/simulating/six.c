/* Six small programs in one, by the first letter of the argument: a list, matrices, a sort, strings, a histogram, and
   structures whose members straddle lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { struct node *next; long value; char rest[48]; };
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static unsigned state = 1;
static unsigned next(void) { return state = state * 1103515245u + 12345u; }
int main(int argc, char **argv) {
    int n = 4000;
    long sum = 0;
    switch (argv[1][0]) {
    case 'l': { struct node *head = 0;
        for (int i = 0; i < n; i++) { struct node *p = malloc(sizeof *p); p->next = head; p->value = i; head = p; }
        for (int k = 0; k < 5; k++) for (struct node *p = head; p; p = p->next) sum += p->value;
        break; }
    case 'm': { static double a[48][48], b[48][48], c[48][48];
        for (int i = 0; i < 48; i++) for (int j = 0; j < 48; j++) { a[i][j] = i; b[j][i] = j; }
        for (int i = 0; i < 48; i++) for (int j = 0; j < 48; j++) for (int k = 0; k < 48; k++) c[i][j] += a[i][k] * b[k][j];
        sum = (long)c[5][6]; break; }
    case 'q': { int *v = malloc(n * sizeof *v); for (int i = 0; i < n; i++) v[i] = next() >> 8; qsort(v, n, sizeof *v, compare); sum = v[n / 2]; break; }
    case 's': { char *t = malloc(60001); memset(t, 'x', 60000); t[60000] = 0; for (int i = 0; i < 20; i++) { t[next() % 60000] = 'y'; sum += strlen(t) + (strchr(t, 'y') - t); memmove(t + 3, t, 50000); } break; }
    case 'h': { unsigned *table = calloc(1 << 18, 4); for (int i = 0; i < 30000; i++) table[next() >> 14]++; for (int i = 0; i < 1 << 18; i += 64) sum += table[i]; break; }
    case 'p': { struct __attribute__((packed)) odd { char c; double d; long l; } *v = malloc(5000 * sizeof *v);
        for (int k = 0; k < 4; k++) for (int i = 0; i < 5000; i++) { v[i].d = i; v[i].l++; v[i].c = 1; sum += v[i].l; } break; }
    }
    printf("%ld\n", sum);
    return 0;
}
