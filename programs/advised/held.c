// Accounts, each with a balance of its own that was allocated when the account was first used: in another order than that in which they
// are gone through. With -DADVISED an account holds its balance by value.

#include <stdio.h>
#include <stdlib.h>

struct balance {
    long amount;
    long limit;
    long days;
};

struct account {
    long id;
#ifdef ADVISED
    struct balance balance;
#else
    struct balance *balance;
#endif
    long owner;
};

static struct balance *balance_of(struct account *account)
{
#ifdef ADVISED
    return &account->balance;
#else
    return account->balance = malloc(sizeof(struct balance));
#endif
}

static long interest(const struct account *accounts, long n, long day)
{
    long sum = 0;
    for (long i = 0; i < n; i++) {
#ifdef ADVISED
        const struct balance *balance = &accounts[i].balance;
#else
        const struct balance *balance = accounts[i].balance;
#endif
        if (accounts[i].owner != day)
            sum += balance->amount > balance->limit ? balance->limit : balance->amount + balance->days;
    }
    return sum;
}

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 10, n = argc > 2 ? atol(argv[2]) : 1 << 20;
    struct account *accounts = calloc((size_t)n, sizeof *accounts);
    for (long i = 0; i < n; i++) {
        // Each once, as that is odd and n is a power of two.
        long at = i * 514229 % n;
        struct balance *balance = balance_of(&accounts[at]);
        accounts[at].id = at, accounts[at].owner = at % 31;
        balance->amount = at % 1009, balance->limit = 700, balance->days = at % 7;
    }
    long sum = 0;
    for (long pass = 0; pass < passes; pass++)
        sum += interest(accounts, n, pass);
    printf("%ld\n", sum);
    return 0;
}
