// Uses the C++ library that it is linked with, as Python's wheels have it.

#include <map>
#include <new>
#include <string>

struct alignas(64) Line {
    long words[8];
};

extern "C" long run()
{
    std::map<int, std::string> texts;
    for (int i = 0; i < 1000; i++)
        texts[i] = std::string(50, 'a' + i % 26);
    Line *line = new Line();
    line->words[0] = long(texts.size());
    try {
        throw std::string("thrown");
    } catch (const std::string &text) {
        line->words[0] += long(text.size());
    }
    long sum = line->words[0];
    delete line;
    return sum;
}
