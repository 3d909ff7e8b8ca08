// burn.c in C++: virtual calls, templates, a callback of the library, and calls that an exception may pass.
// burn SECONDS; prints the CPU time it has used in nanoseconds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <vector>

static volatile unsigned long sink;
// Rounds differ in length, so that samples at a steady rate do not find the same part of each.
static unsigned long scale = 100;

static double used() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) void spin(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i;
}

struct Work {
    virtual ~Work() = default;
    virtual void run() = 0;
};
template <unsigned long N> struct hot_a : Work {
    __attribute__((noinline)) void run() override { spin(N * scale); if (sink == 1) throw std::runtime_error("never"); }
};
template <unsigned long N> struct hot_b : Work {
    __attribute__((noinline)) void run() override { spin(N * scale); if (sink == 1) throw std::runtime_error("never"); }
};

template <typename Callback> __attribute__((noinline)) int deep(int n, Callback &callback) {
    try {
        if (n == 0) callback(); else return deep(n - 1, callback) + 1;
    } catch (const std::runtime_error &) { return 1; }
    return sink % 2;
}

int main(int count, char **words) {
    double seconds = count > 1 ? atof(words[1]) : 1;
    std::vector<std::unique_ptr<Work>> all;
    all.push_back(std::make_unique<hot_a<700>>());
    all.push_back(std::make_unique<hot_b<300>>());
    auto callback = [&] { std::for_each(all.begin(), all.end(), [](auto &work) { work->run(); }); };
    unsigned random = 1;
    while (used() < seconds) {
        scale = 50 + (random = random * 1103515245 + 12345) / 65536 % 101;
        deep(20, callback);
    }
    std::printf("%.0f\n", used() * 1e9);
    return 0;
}
