// Lookups of cross sections by energy, shaped like XSBench: a unionized grid of energies points into the grids of all
// nuclides, of which materials use the first and the last ones more often. nuclide_grids is where it waits, most of all its
// first nuclides; index_grid is the biggest, and has few misses a byte.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUCLIDES = 32, POINTS = 64, ENERGIES = NUCLIDES * POINTS, KINDS = 5 };

struct grid_point {
    double energy;
    double sections[KINDS];
};

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

// Of ten lookups five are of a material of the first five nuclides, three of one of all, two of one of the last four.
static void material(int *first, int *last)
{
    uint64_t which = next_random() % 10;
    *first = which < 8 ? 0 : NUCLIDES - 4;
    *last = which < 5 ? 5 : NUCLIDES;
}

static long search(const double *energies, double energy)
{
    long low = 0, high = ENERGIES;
    while (high - low > 1) {
        long middle = (low + high) / 2;
        if (energies[middle] > energy)
            high = middle;
        else
            low = middle;
    }
    return low;
}

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? atol(argv[1]) : 1000000;
    struct grid_point *nuclide_grids = malloc(sizeof *nuclide_grids * NUCLIDES * POINTS);
    double *energy_grid = malloc(sizeof *energy_grid * ENERGIES);
    int *index_grid = malloc(sizeof *index_grid * ENERGIES * NUCLIDES);
    if (!nuclide_grids || !energy_grid || !index_grid)
        return 1;
    for (long at = 0; at < NUCLIDES * POINTS; at++) {
        nuclide_grids[at].energy = (double)(at % POINTS) / POINTS;
        for (int kind = 0; kind < KINDS; kind++)
            nuclide_grids[at].sections[kind] = (double)(next_random() % 1000);
    }
    for (long at = 0; at < ENERGIES; at++) {
        energy_grid[at] = (double)at / ENERGIES;
        for (int nuclide = 0; nuclide < NUCLIDES; nuclide++)
            index_grid[at * NUCLIDES + nuclide] = (int)(at * (POINTS - 1) / ENERGIES);
    }
    double totals[KINDS] = {0};
    for (long lookup = 0; lookup < lookups; lookup++) {
        double energy = (double)(next_random() % 1000000) / 1000000;
        long row = search(energy_grid, energy);
        int first, last;
        material(&first, &last);
        for (int nuclide = first; nuclide < last; nuclide++) {
            long low = nuclide * POINTS + index_grid[row * NUCLIDES + nuclide], high = low + 1;
            double part = (nuclide_grids[high].energy - energy) * POINTS;
            for (int kind = 0; kind < KINDS; kind++) {
                double above = nuclide_grids[high].sections[kind];
                totals[kind] += above - part * (above - nuclide_grids[low].sections[kind]);
            }
        }
    }
    printf("%.0f %.0f\n", totals[0], totals[KINDS - 1]);
    free(index_grid);
    free(energy_grid);
    free(nuclide_grids);
    return 0;
}
