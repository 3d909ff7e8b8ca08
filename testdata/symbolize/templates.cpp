// One unit of the large program that the symbolizer's bench builds: many instances of templates
// that use the standard library. `UNIT` tells units apart, `COUNT` is the number of instances.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

namespace bench {

namespace {
template <int N> int mix(int value) { return value * 31 + N; }
}

template <int N, class T> struct Table {
    std::map<std::string, std::vector<T>> ordered;
    std::unordered_map<std::string, std::shared_ptr<T>> hashed;
    std::function<T(T)> step;

    T run(int rounds) {
        for (int i = 0; i < rounds; i++) {
            auto key = std::to_string(i * N);
            ordered[key].push_back(static_cast<T>(mix<N>(i)));
            hashed.emplace(key, std::make_shared<T>(static_cast<T>(i)));
        }
        step = [this](T value) { return static_cast<T>(value + ordered.size() + N); };
        std::vector<T> all;
        for (auto& [key, values] : ordered) {
            std::copy_if(values.begin(), values.end(), std::back_inserter(all), [](T value) { return value != static_cast<T>(N); });
        }
        std::sort(all.begin(), all.end(), [](const T& a, const T& b) {
            return mix<N>(static_cast<int>(a)) < mix<N>(static_cast<int>(b));
        });
        return std::accumulate(all.begin(), all.end(), T{}, [this](T a, T b) { return step(a) + b; });
    }
};

template <int... N> long run_all(int rounds, std::integer_sequence<int, N...>) {
    auto one = [rounds](auto table) { return static_cast<long>(table.run(rounds)); };
    return (0L + ... + (one(Table<N * 16 + UNIT, int>{}) + one(Table<N * 16 + UNIT, double>{})));
}

template <int Unit> struct Entry {
    static long run(int rounds);
};

template <> long Entry<UNIT>::run(int rounds) { return run_all(rounds, std::make_integer_sequence<int, COUNT>{}); }

}

#if UNIT == 0
int main(int argc, char**) { return static_cast<int>(bench::Entry<0>::run(argc)); }
#endif
