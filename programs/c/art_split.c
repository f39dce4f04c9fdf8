// art.c after its split into {P} {X, Q} {I, U} {V} {W} {R}. Prints the same checksum.

#include "truth.h"

typedef struct {
    double P;
} f1_neuron_p;

typedef struct {
    double X, Q;
} f1_neuron_xq;

typedef struct {
    double I, U;
} f1_neuron_iu;

typedef struct {
    double V;
} f1_neuron_v;

typedef struct {
    double W;
} f1_neuron_w;

typedef struct {
    double R;
} f1_neuron_r;

// The arrays in place of one array of f1_neuron.
typedef struct {
    f1_neuron_p *p;
    f1_neuron_xq *xq;
    f1_neuron_iu *iu;
    f1_neuron_v *v;
    f1_neuron_w *w;
    f1_neuron_r *r;
} f1_neurons;

enum { FILL, RESET, NORMALIZE_X, NORM_W, FEED_U, MATCH, LARGEST_P, SETTLE, NORM_V, PRESENT_I, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0},  {"reset", 0},     {"normalize_x", 0}, {"norm_w", 0}, {"feed_u", 0},
                                    {"match", 0}, {"largest_p", 0}, {"settle", 0},      {"norm_v", 0},
                                    {"present_i", 0}};

static void reset(const f1_neurons *f1_layer, long n)
{
    for (long i = 0; i < n; i++)
        f1_layer->p[i].P -= 0.125 * f1_layer->iu[i].U;
}

static double normalize_x(const f1_neurons *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer->xq[i].X * f1_layer->xq[i].Q;
    return sum;
}

static double norm_w(const f1_neurons *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer->w[i].W * f1_layer->w[i].W;
    return sum;
}

static double feed_u(const f1_neurons *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer->iu[i].I + 0.5 * f1_layer->iu[i].U;
    return sum;
}

static double match(const f1_neurons *f1_layer, long n, double bus)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer->p[i].P * bus;
    return sum;
}

static double largest_p(const f1_neurons *f1_layer, long n)
{
    double largest = -1;
    for (long i = 0; i < n; i++)
        if (f1_layer->p[i].P > largest)
            largest = f1_layer->p[i].P;
    return largest;
}

static double settle(const f1_neurons *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer->p[i].P * f1_layer->iu[i].U;
    return sum;
}

static double present_i(const f1_neurons *f1_layer, long n)
{
    double least = 1e9;
    for (long i = 0; i < n; i++)
        if (f1_layer->iu[i].I < least)
            least = f1_layer->iu[i].I;
    return least;
}

static double norm_v(const f1_neurons *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer->v[i].V * f1_layer->v[i].V;
    return sum;
}

// `passes` runs of one loop, each with its own number so that none can be left out as a repetition.
#define RUN(slot, passes, call)                                                                                        \
    for (long pass = 0; pass < (passes); pass++) {                                                                     \
        uint64_t started = truth_now();                                                                                \
        call;                                                                                                 \
        truth_add(&loops[slot], started);                                                                              \
    }

int main(int argc, char **argv)
{
    long steps = argument(argc, argv, 1, 2), n = argument(argc, argv, 2, 1 << 18);
    f1_neurons f1_layer;
    f1_layer.p = malloc((size_t)n * sizeof *f1_layer.p);
    f1_layer.xq = malloc((size_t)n * sizeof *f1_layer.xq);
    f1_layer.iu = malloc((size_t)n * sizeof *f1_layer.iu);
    f1_layer.v = malloc((size_t)n * sizeof *f1_layer.v);
    f1_layer.w = malloc((size_t)n * sizeof *f1_layer.w);
    f1_layer.r = malloc((size_t)n * sizeof *f1_layer.r);
    uint64_t filled = truth_now();
    for (long i = 0; i < n; i++) {
        double x = (double)(i % 1000);
        f1_layer.p[i] = (f1_neuron_p){x + 5};
        f1_layer.xq[i] = (f1_neuron_xq){x + 2, x + 6};
        f1_layer.iu[i] = (f1_neuron_iu){x, x + 4};
        f1_layer.v[i] = (f1_neuron_v){x + 3};
        f1_layer.w[i] = (f1_neuron_w){x + 1};
        f1_layer.r[i] = (f1_neuron_r){x + 7};
    }
    truth_add(&loops[FILL], filled);

    double sum = 0;
    for (long step = 0; step < steps; step++) {
        RUN(RESET, 13, reset(&f1_layer, n))
        RUN(NORMALIZE_X, 84, sum += normalize_x(&f1_layer, n))
        RUN(NORM_W, 20, sum += norm_w(&f1_layer, n))
        RUN(FEED_U, 108, sum += feed_u(&f1_layer, n))
        RUN(MATCH, 566, sum += match(&f1_layer, n, (double)pass))
        RUN(LARGEST_P, 144, sum += largest_p(&f1_layer, n))
        RUN(SETTLE, 22, sum += settle(&f1_layer, n))
        RUN(NORM_V, 37, sum += norm_v(&f1_layer, n))
        RUN(PRESENT_I, 2, sum += present_i(&f1_layer, n))
    }
    printf("%.6e\n", sum);
    free(f1_layer.p);
    free(f1_layer.xq);
    free(f1_layer.iu);
    free(f1_layer.v);
    free(f1_layer.w);
    free(f1_layer.r);
    truth_write(loops, LOOPS);
    return 0;
}
