// As callpaths.c, from C++: operator new, virtual calls, algorithms, exceptions on the way.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>
#include <vector>

static std::string told;
static int left = 600;
static std::uint64_t state = 5;

static unsigned rnd(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return unsigned(state >> 33) % below;
}

static _Unwind_Reason_Code frame(_Unwind_Context *context, void *) {
    char text[32];
    std::snprintf(text, sizeof text, " %lx %lx", (unsigned long)_Unwind_GetIP(context),
                  (unsigned long)_Unwind_GetRegionStart(context));
    told += text;
    return _URC_NO_REASON;
}

[[gnu::noinline]] static void allocate() {
    std::size_t bytes = (1 << 20) + rnd(1000);
    std::unique_ptr<char[]> block(rnd(2) ? new char[bytes] : new (std::nothrow) char[bytes]);
    told += std::to_string(syscall(SYS_gettid));
    char text[32];
    std::snprintf(text, sizeof text, " %lx", (unsigned long)block.get());
    told += text;
    _Unwind_Backtrace(frame, nullptr);
    told += '\n';
    --left;
}

struct Shape {
    virtual ~Shape() = default;
    virtual int area(int depth) = 0;
};

static int any(int depth);

struct Square : Shape {
    int area(int depth) override { return any(depth) + 1; }
};

struct Circle : Shape {
    int area(int depth) override {
        std::vector<int> numbers{3, 1, 2};
        std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
            if (rnd(3) == 0) any(depth);
            return a < b;
        });
        return numbers[0];
    }
};

[[gnu::noinline]] static int throws(int depth) {
    try {
        any(depth);
        throw depth;
    } catch (int thrown) {
        return any(thrown) + 1;
    }
}

static int any(int depth) {
    if (left <= 0) return 0;
    allocate();
    if (depth == 0) return 1;
    std::unique_ptr<Shape> shape;
    if (rnd(2)) shape = std::make_unique<Square>();
    else shape = std::make_unique<Circle>();
    std::function<int(int)> call = [&](int more) { return shape->area(more) + 1; };
    return rnd(3) ? call(depth - 1) + 1 : throws(depth - 1) + 1;
}

int main() {
    told.reserve(900000);
    while (left > 0) any(5);
    std::fwrite(told.data(), 1, told.size(), stdout);
}
