// Allocation-heavy C++: an ordered map from strings to lists that grows and shrinks. For the overhead bench.

#include "../c/truth.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

struct Order {
    long number;
    std::string note;
};

int main(int argc, char **argv)
{
    long orders = argument(argc, argv, 1, 2000000);
    uint64_t random = 88172645463325252u;
    std::map<std::string, std::vector<std::unique_ptr<Order>>> by_customer;
    std::size_t sum = 0;
    for (long i = 0; i < orders; i++) {
        uint64_t r = next_random(&random);
        std::string customer = "customer number " + std::to_string(r % 4096);
        auto &list = by_customer[customer];
        list.push_back(std::make_unique<Order>(Order{i, "order " + std::to_string(i) + " of " + customer}));
        if (list.size() > 24) {
            for (const auto &order : list)
                sum = sum * 31 + order->note.size() + static_cast<std::size_t>(order->number);
            by_customer.erase(customer);
        }
    }
    printf("%zu %zu\n", sum, by_customer.size());
    return 0;
}
