// PageRank over a graph as of a social network: circles of 64 whose members mostly follow each other, and few whom many follow, there and
// everywhere. Edges are allocated one by one, in the order of a list that says nothing of who is near.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#ifdef TIDY
#include "tidy.h"
#endif

struct edge {
    unsigned source, destination;
    double weight;
};
struct node {
    unsigned id;
    double rank;
    std::vector<edge *> in, out;
};

static unsigned long long state = 88172645463325252ULL;
static double drawn() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) * (1.0 / 9007199254740992.0);
}

int main(int argc, char **argv) {
    const unsigned nodes = argc > 1 ? atoi(argv[1]) : 4000;
    const unsigned edges = nodes * 8;
    const int rounds = argc > 2 ? atoi(argv[2]) : 3;
    std::vector<node *> graph;
    for (unsigned id = 0; id < nodes; id++) {
        node *made = new node();
        made->id = id;
        made->rank = 1.0 / nodes;
        graph.push_back(made);
    }
#ifdef TIDY
    const size_t cells = edges * sizeof(edge) / 4096 + 1;
    struct tidy_context *context = tidy_create(1, &cells);
#endif
    for (unsigned at = 0; at < edges; at++) {
        const unsigned source = (unsigned)(drawn() * nodes), circle = source / 64 * 64;
        const double famous = std::pow(drawn(), 3);
        const unsigned among = circle + 64 <= nodes ? 64 : nodes - circle;
        const unsigned destination = drawn() < 0.8 ? circle + (unsigned)(famous * among) : (unsigned)(famous * nodes);
#ifdef TIDY
        const size_t hint = (size_t)source * cells / nodes;
        edge *made = (edge *)tidy_alloc(context, sizeof(edge), &hint);
#else
        edge *made = new edge;
#endif
        made->source = source;
        made->destination = destination;
        made->weight = 0;
        graph[source]->out.push_back(made);
        graph[destination]->in.push_back(made);
    }
    for (int round = 0; round < rounds; round++) {
        for (node *at : graph) {
            double sum = 0;
            for (edge *in : at->in)
                sum += in->weight;
            at->rank = 0.15 + 0.85 * sum;
            if (at->out.empty())
                continue;
            const double share = at->rank / at->out.size();
            for (edge *out : at->out)
                out->weight = share;
        }
    }
    double all = 0;
    for (node *at : graph)
        all += at->rank;
    printf("%.6f\n", all / nodes);
}
