// new[] of a class with a destructor: the array starts 8 bytes into its block, behind the element count.
//
// truth:
// [[group]]
// name = "cells"
// type = "Cell"
// element_bytes = 40
// start = 8
// fields = { heat = 0, tag = 8, flow = 16, source = 24, age = 32 }
// allocated_at = { function = "main", line = 56 }
// split = [["heat", "flow"], ["tag", "source", "age"]]
//
// [[loop]]
// name = "diffuse"
// function = "diffuse"
// lines = [44, 47]
// group = "cells"
// fields = ["heat", "flow"]
// stride_bytes = 40

#include "../c/truth.h"

static long live_cells;

class Cell {
  public:
    Cell() { live_cells++; }
    ~Cell() { live_cells--; }

    double heat = 0;
    long tag = 7;
    double flow = 0;
    long source = 0;
    long age = 0;
};

enum { FILL, DIFFUSE, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"diffuse", 0}};

// One explicit step: each cell's flow is what its left neighbour was hotter by.
static double diffuse(Cell *cells, long n)
{
    double left = cells[0].heat;
    for (long i = 1; i < n; i++) {
        double flow = left - cells[i].heat;
        left = cells[i].heat;
        cells[i].flow += flow;
    }
    return left;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 500), n = argument(argc, argv, 2, 1 << 20);
    uint64_t started = truth_now();
    Cell *cells = new Cell[static_cast<std::size_t>(n)];
    for (long i = 0; i < n; i++)
        cells[i].heat = static_cast<double>(i % 127);
    truth_add(&loops[FILL], started);

    double sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        started = truth_now();
        sum += diffuse(cells, n);
        truth_add(&loops[DIFFUSE], started);
        cells[pass % n].heat += 1;
    }
    printf("%.3f %.3f %ld\n", sum, cells[n / 2].flow, live_cells);
    delete[] cells;
    truth_write(loops, LOOPS);
    return 0;
}
