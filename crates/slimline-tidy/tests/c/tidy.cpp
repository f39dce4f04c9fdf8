#include "tidy.hpp"

#include <cstdio>
#include <list>
#include <map>
#include <string>

struct node {
    std::string name;
    double x;
};

int main()
{
    tidy::context mesh({8, 8});
    {
        using strip = std::list<node, tidy::allocator<node>>;
        strip first(mesh.hinted<node>({1, 1}));
        for (int i = 0; i < 100; i++)
            first.push_back({std::to_string(i), i / 2.0});
        std::map<int, double, std::less<int>, tidy::allocator<std::pair<const int, double>>> tree(
            mesh.hinted<std::pair<const int, double>>({2, 3}));
        for (int i = 0; i < 50; i++)
            tree[i * 7 % 50] = i;
        auto one = tidy::make_unique<node>(mesh, {4, 4}, node{"one", 1.5});
        strip moved = std::move(first);
        std::printf("%zu objects in %zu arenas, %s, %g\n", mesh.statistics().objects, mesh.statistics().arenas,
                    moved.back().name.c_str(), one->x + tree[49]);
        try {
            mesh.hinted<node>({1});
        } catch (const std::invalid_argument &refused) {
            std::puts(refused.what());
        }
    }
    std::printf("%zu objects left\n", mesh.statistics().objects);
}
