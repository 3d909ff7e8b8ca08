// Sorts, counts and hashes through templates, lambdas and inlined functions; the input of cpp.cpu.pb.gz:
//   g++ -O2 -g -ffile-prefix-map=$PWD=/src main.cpp -Wl,--no-as-needed -lprofiler -o shop && CPUPROFILE=cpp.prof ./shop
//   procprof report --pprof --binary ./shop -o ../cpp.cpu.pb.gz cpp.prof
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace shop {

template <typename T>
struct Basket {
    std::vector<T> items;

    __attribute__((noinline)) void fill(uint64_t seed) {
        items.clear();
        for (int i = 0; i < 20000; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            items.push_back(T(seed >> 33));
        }
    }

    __attribute__((noinline)) void sort() {
        std::sort(items.begin(), items.end(), [](const T &a, const T &b) { return b < a; });
    }
};

namespace {

__attribute__((noinline)) uint64_t hash(const std::string &text) {
    uint64_t sum = 14695981039346656037ULL;
    for (unsigned char c : text) sum = (sum ^ c) * 1099511628211ULL;
    return sum;
}

}  // namespace

class Till {
  public:
    __attribute__((noinline)) uint64_t count(const std::vector<int> &items) {
        std::map<int, std::string> names;
        uint64_t sum = 0;
        for (int item : items) {
            std::string &name = names[item % 512];
            if (name.empty()) name = std::to_string(item) + " of something that is sold";
            sum += hash(name);
        }
        return sum;
    }
};

}  // namespace shop

int main() {
    uint64_t sum = 0;
    shop::Basket<int> whole;
    shop::Basket<double> parts;
    shop::Till till;
    for (int round = 0; round < 500; round++) {
        whole.fill(round);
        whole.sort();
        parts.fill(round + 1);
        parts.sort();
        sum += till.count(whole.items);
    }
    std::printf("%llu\n", (unsigned long long)sum);
}
