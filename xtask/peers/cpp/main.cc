// A large C++ program that dumps its heap at three moments: `cpp-workload FOLDER`, linked with jemalloc and run with
// `MALLOC_CONF=prof:true,lg_prof_sample:10`.
//
// `a.heap` is taken with the work of the first three quarters of the units, `b.heap` with that of the last three: two dumps of one program a
// while apart. `big.heap` has all, sampled every 2^6 bytes.
#include "workload.h"

#include <jemalloc/jemalloc.h>

#include <cstdio>
#include <cstdlib>
#include <string>

static const int ROUNDS = 1000;
static const int BIG_ROUNDS = 3000;
static const size_t BIG_LG_SAMPLE = 6;

static void control(const char* name, void* value, size_t size) {
    if (int error = mallctl(name, nullptr, nullptr, value, size)) {
        std::fprintf(stderr, "mallctl %s: error %d\n", name, error);
        std::exit(1);
    }
}

static void dump(const std::string& path) {
    const char* name = path.c_str();
    control("prof.dump", &name, sizeof name);
    std::fprintf(stderr, "%s\n", name);
}

// The work of the units from `first` up to but not including `end`.
static Kept work(int first, int end, unsigned seed, int rounds) {
    Kept kept;
    for (auto [number, unit] : units()) {
        if (first <= number && number < end) unit(seed, rounds, kept);
    }
    return kept;
}

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: cpp-workload FOLDER\n");
        return 1;
    }
    const std::string folder = arguments[1];
    const int quarter = static_cast<int>(units().size()) / 4;
    {
        Kept kept = work(0, 3 * quarter, 1, ROUNDS);
        dump(folder + "/a.heap");
    }
    {
        Kept kept = work(quarter, 4 * quarter, 2, ROUNDS);
        dump(folder + "/b.heap");
    }
    size_t distance = BIG_LG_SAMPLE;
    control("prof.reset", &distance, sizeof distance);
    Kept kept = work(0, 4 * quarter, 3, BIG_ROUNDS);
    dump(folder + "/big.heap");
}
