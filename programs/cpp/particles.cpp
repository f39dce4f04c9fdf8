// A std::vector of particles with a base class and nested vectors: one loop weighs positions, one moves charges.
//
// truth:
// [[group]]
// name = "particles"
// type = "Particle"
// element_bytes = 96
// fields = { id = 0, cell = 8, "position.x" = 16, "position.y" = 24, "position.z" = 32, "velocity.x" = 40, "velocity.y" = 48, "velocity.z" = 56, mass = 64, charge = 72, spin = 80, age = 88 }
// allocated_at = { function = "main", line = 85 }
// split = [["position.x", "position.y", "position.z", "mass"], ["charge", "cell"]]
//
// [[loop]]
// name = "weigh"
// function = "weigh"
// lines = [64, 67]
// group = "particles"
// fields = ["position.x", "position.y", "position.z", "mass"]
// stride_bytes = 96
//
// [[loop]]
// name = "charge_of_cell"
// function = "charge_of_cell"
// lines = [75, 77]
// group = "particles"
// fields = ["cell", "charge"]
// stride_bytes = 96

#include "../c/truth.h"

#include <vector>

namespace sky {

struct Vec3 {
    double x, y, z;
};

struct Body {
    long id;
    long cell;
};

struct Particle : Body {
    Vec3 position;
    Vec3 velocity;
    double mass;
    double charge;
    double spin;
    double age;
};

} // namespace sky

using sky::Particle;
using sky::Vec3;

enum { FILL, WEIGH, CHARGE_OF_CELL, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"weigh", 0}, {"charge_of_cell", 0}};

// Sum of mass times position: the numerator of the centre of mass.
static Vec3 weigh(const std::vector<Particle> &particles)
{
    Vec3 sum{0, 0, 0};
    for (const Particle &p : particles) {
        sum.x += p.mass * p.position.x;
        sum.y += p.mass * p.position.y;
        sum.z += p.mass * p.position.z;
    }
    return sum;
}

static double charge_of_cell(const std::vector<Particle> &particles, long cell)
{
    double sum = 0;
    for (const Particle &p : particles)
        if (p.cell != cell)
            sum += p.charge;
    return sum;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 120), n = argument(argc, argv, 2, 1 << 20);
    uint64_t started = truth_now();
    std::vector<Particle> particles(static_cast<std::size_t>(n));
    for (long i = 0; i < n; i++) {
        double d = static_cast<double>(i % 509);
        Particle &p = particles[static_cast<std::size_t>(i)];
        p.id = i;
        p.cell = i >> 8;
        p.position = {d, d + 1, d + 2};
        p.velocity = {1, 0, -1};
        p.mass = 1 + d / 64;
        p.charge = i & 1 ? -1 : 2;
        p.spin = 0.5;
    }
    truth_add(&loops[FILL], started);

    Vec3 centre{0, 0, 0};
    double charge = 0;
    for (long pass = 0; pass < passes; pass++) {
        for (int half = 0; half < 2; half++) {
            started = truth_now();
            Vec3 sum = weigh(particles);
            centre.x += sum.x, centre.y += sum.y, centre.z += sum.z;
            particles[static_cast<std::size_t>(pass % n)].mass += 1;
            truth_add(&loops[WEIGH], started);
        }
        started = truth_now();
        charge += charge_of_cell(particles, pass);
        truth_add(&loops[CHARGE_OF_CELL], started);
    }
    printf("%.6e %.6e %.6e %.1f\n", centre.x, centre.y, centre.z, charge);
    truth_write(loops, LOOPS);
    return 0;
}
