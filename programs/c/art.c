// The loops of SPEC's 179.art over the array of f1_neuron, as StructSlim's Table 5 weighs them.
//
// Each loop is one pass over all neurons and costs the memory traffic of one line a neuron, whatever its fields; so
// the published share of a loop is its number of passes, in thousandths (`reset` writes, which costs more: fewer
// passes). Two accesses to P and one to U in `reset`, one and one in `settle`, make the published shares of the
// fields (I 5.5 %, U 7.1 %, P 73.3 %) and with them the published affinities. R, which no loop reads, stays apart.
//
// truth:
// [[group]]
// name = "f1_layer"
// type = "f1_neuron"
// element_bytes = 64
// fields = { I = 0, W = 8, X = 16, V = 24, U = 32, P = 40, Q = 48, R = 56 }
// allocated_at = { function = "main", line = 184 }
// split = [["P"], ["X", "Q"], ["I", "U"], ["V"], ["W"], ["R"]]
// affinity = [["I", "U", 0.86], ["X", "Q", 1.0], ["P", "U", 0.05]]
//
// [[loop]]
// name = "reset"
// function = "reset"
// lines = [103, 104]
// group = "f1_layer"
// fields = ["U", "P"]
// stride_bytes = 64
//
// [[loop]]
// name = "normalize_x"
// function = "normalize_x"
// lines = [110, 111]
// group = "f1_layer"
// fields = ["X", "Q"]
// stride_bytes = 64
//
// [[loop]]
// name = "norm_w"
// function = "norm_w"
// lines = [118, 119]
// group = "f1_layer"
// fields = ["W"]
// stride_bytes = 64
//
// [[loop]]
// name = "feed_u"
// function = "feed_u"
// lines = [126, 127]
// group = "f1_layer"
// fields = ["U", "I"]
// stride_bytes = 64
//
// [[loop]]
// name = "match"
// function = "match"
// lines = [134, 135]
// group = "f1_layer"
// fields = ["P"]
// stride_bytes = 64
//
// [[loop]]
// name = "largest_p"
// function = "largest_p"
// lines = [142, 144]
// group = "f1_layer"
// fields = ["P"]
// stride_bytes = 64
//
// [[loop]]
// name = "settle"
// function = "settle"
// lines = [151, 152]
// group = "f1_layer"
// fields = ["U", "P"]
// stride_bytes = 64
//
// [[loop]]
// name = "norm_v"
// function = "norm_v"
// lines = [168, 169]
// group = "f1_layer"
// fields = ["V"]
// stride_bytes = 64
//
// [[loop]]
// name = "present_i"
// function = "present_i"
// lines = [159, 161]
// group = "f1_layer"
// fields = ["I"]
// stride_bytes = 64

#include "truth.h"

typedef struct {
    double I, W, X, V, U, P, Q, R;
} f1_neuron;

enum { FILL, RESET, NORMALIZE_X, NORM_W, FEED_U, MATCH, LARGEST_P, SETTLE, NORM_V, PRESENT_I, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0},  {"reset", 0},     {"normalize_x", 0}, {"norm_w", 0}, {"feed_u", 0},
                                    {"match", 0}, {"largest_p", 0}, {"settle", 0},      {"norm_v", 0},
                                    {"present_i", 0}};

static void reset(f1_neuron *f1_layer, long n)
{
    for (long i = 0; i < n; i++)
        f1_layer[i].P -= 0.125 * f1_layer[i].U;
}

static double normalize_x(const f1_neuron *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer[i].X * f1_layer[i].Q;
    return sum;
}

static double norm_w(const f1_neuron *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer[i].W * f1_layer[i].W;
    return sum;
}

static double feed_u(const f1_neuron *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer[i].I + 0.5 * f1_layer[i].U;
    return sum;
}

static double match(const f1_neuron *f1_layer, long n, double bus)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer[i].P * bus;
    return sum;
}

static double largest_p(const f1_neuron *f1_layer, long n)
{
    double largest = -1;
    for (long i = 0; i < n; i++)
        if (f1_layer[i].P > largest)
            largest = f1_layer[i].P;
    return largest;
}

static double settle(const f1_neuron *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer[i].P * f1_layer[i].U;
    return sum;
}

static double present_i(const f1_neuron *f1_layer, long n)
{
    double least = 1e9;
    for (long i = 0; i < n; i++)
        if (f1_layer[i].I < least)
            least = f1_layer[i].I;
    return least;
}

static double norm_v(const f1_neuron *f1_layer, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f1_layer[i].V * f1_layer[i].V;
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
    f1_neuron *f1_layer = malloc((size_t)n * sizeof *f1_layer);
    uint64_t filled = truth_now();
    for (long i = 0; i < n; i++) {
        double x = (double)(i % 1000);
        f1_layer[i] = (f1_neuron){x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7};
    }
    truth_add(&loops[FILL], filled);

    double sum = 0;
    for (long step = 0; step < steps; step++) {
        RUN(RESET, 13, reset(f1_layer, n))
        RUN(NORMALIZE_X, 84, sum += normalize_x(f1_layer, n))
        RUN(NORM_W, 20, sum += norm_w(f1_layer, n))
        RUN(FEED_U, 108, sum += feed_u(f1_layer, n))
        RUN(MATCH, 566, sum += match(f1_layer, n, (double)pass))
        RUN(LARGEST_P, 144, sum += largest_p(f1_layer, n))
        RUN(SETTLE, 22, sum += settle(f1_layer, n))
        RUN(NORM_V, 37, sum += norm_v(f1_layer, n))
        RUN(PRESENT_I, 2, sum += present_i(f1_layer, n))
    }
    printf("%.6e\n", sum);
    free(f1_layer);
    truth_write(loops, LOOPS);
    return 0;
}
