// particles.cpp after its split: {position, mass}, {cell, charge} and the rest. Prints the same checksum.

#include "../c/truth.h"

#include <vector>

namespace sky {

struct Vec3 {
    double x, y, z;
};

struct ParticlePlace {
    Vec3 position;
    double mass;
};

struct ParticleCharge {
    long cell;
    double charge;
};

struct ParticleRest {
    long id;
    Vec3 velocity;
    double spin;
    double age;
};

} // namespace sky

using sky::ParticleCharge;
using sky::ParticlePlace;
using sky::ParticleRest;
using sky::Vec3;

enum { FILL, WEIGH, CHARGE_OF_CELL, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"weigh", 0}, {"charge_of_cell", 0}};

// Sum of mass times position: the numerator of the centre of mass.
static Vec3 weigh(const std::vector<ParticlePlace> &particles)
{
    Vec3 sum{0, 0, 0};
    for (const ParticlePlace &p : particles) {
        sum.x += p.mass * p.position.x;
        sum.y += p.mass * p.position.y;
        sum.z += p.mass * p.position.z;
    }
    return sum;
}

static double charge_of_cell(const std::vector<ParticleCharge> &particles, long cell)
{
    double sum = 0;
    for (const ParticleCharge &p : particles)
        if (p.cell != cell)
            sum += p.charge;
    return sum;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 120), n = argument(argc, argv, 2, 1 << 20);
    uint64_t started = truth_now();
    auto size = static_cast<std::size_t>(n);
    std::vector<ParticlePlace> places(size);
    std::vector<ParticleCharge> charges(size);
    std::vector<ParticleRest> rests(size);
    for (long i = 0; i < n; i++) {
        double d = static_cast<double>(i % 509);
        auto at = static_cast<std::size_t>(i);
        places[at] = {{d, d + 1, d + 2}, 1 + d / 64};
        charges[at] = {i >> 8, i & 1 ? -1.0 : 2.0};
        rests[at] = {i, {1, 0, -1}, 0.5, 0};
    }
    truth_add(&loops[FILL], started);

    Vec3 centre{0, 0, 0};
    double charge = 0;
    for (long pass = 0; pass < passes; pass++) {
        for (int half = 0; half < 2; half++) {
            started = truth_now();
            Vec3 sum = weigh(places);
            centre.x += sum.x, centre.y += sum.y, centre.z += sum.z;
            places[static_cast<std::size_t>(pass % n)].mass += 1;
            truth_add(&loops[WEIGH], started);
        }
        started = truth_now();
        charge += charge_of_cell(charges, pass);
        truth_add(&loops[CHARGE_OF_CELL], started);
    }
    printf("%.6e %.6e %.6e %.1f\n", centre.x, centre.y, centre.z, charge);
    truth_write(loops, LOOPS);
    return 0;
}
