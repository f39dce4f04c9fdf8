// A vector of orders that is filtered by price, most of which is text. With -DADVISED the text has a vector of its own.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Text {
    char name[40];
};

#ifdef ADVISED
struct Order {
    double price;
    long quantity, id;
};
static std::vector<Text> customers;
#else
struct Order {
    Text customer;
    double price;
    long quantity, id;
};
#endif

int main(int argc, char **argv)
{
    long passes = argc > 1 ? std::atol(argv[1]) : 12, n = argc > 2 ? std::atol(argv[2]) : 1 << 20;
    std::vector<Order> orders(static_cast<std::size_t>(n));
#ifdef ADVISED
    customers.resize(static_cast<std::size_t>(n));
#endif
    for (long i = 0; i < n; i++) {
        Order &order = orders[static_cast<std::size_t>(i)];
#ifdef ADVISED
        Text &customer = customers[static_cast<std::size_t>(i)];
#else
        Text &customer = order.customer;
#endif
        std::memset(customer.name, 'a' + static_cast<int>(i % 26), sizeof customer.name);
        order.price = static_cast<double>(i * 7919 % 1000), order.quantity = i % 10, order.id = i;
    }
    double sum = 0;
    for (long pass = 0; pass < passes; pass++)
        for (const Order &order : orders)
            if (order.price > static_cast<double>(pass))
                sum += order.price * static_cast<double>(order.quantity) + static_cast<double>(order.id & 1);
    std::printf("%.6e\n", sum);
    return 0;
}
