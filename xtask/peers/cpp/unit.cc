// One unit of a large C++ program: many instances of templates over the standard library, which call each other in random order and keep
// what they allocate. `UNIT` tells units apart, `COUNT` is the number of instances.
#include "workload.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

namespace JOIN(unit, UNIT) {

using Random = std::minstd_rand;

// A row of a table; its size depends on the instance.
template <int N> struct Row {
    std::array<char, 16 + N % 48> bytes{};
    std::string name;
    std::optional<double> weight;
    bool operator<(const Row& other) const { return name < other.name; }
};

template <int N> struct Tag {
    int value;
};
template <int N> struct TagHash {
    size_t operator()(const Tag<N>& tag) const { return std::hash<int>{}(tag.value * 31 + N); }
};
template <int N> bool operator==(const Tag<N>& a, const Tag<N>& b) { return a.value == b.value; }

// The containers of one instance, and the steps that fill them.
template <int N> class Table {
    std::map<std::string, Row<N>> ordered;
    std::unordered_map<Tag<N>, std::vector<Row<N>>, TagHash<N>> hashed;
    std::set<std::pair<int, std::string>> names;
    std::deque<std::variant<int, std::string, Row<N>>> queue;
    std::list<std::function<std::string(const Row<N>&)>> steps;
    std::vector<std::string> words;
    std::map<int, std::vector<int>> lengths;
    std::vector<std::vector<double>> matrix;
    std::unordered_map<std::string, size_t> positions;
    std::vector<std::unique_ptr<std::string>> boxes;
    std::string joined;

    Row<N> row(int number) {
        Row<N> row;
        row.name = "row " + std::to_string(number) + " of instance " + std::to_string(N);
        row.weight = number * 0.5;
        return row;
    }

public:
    void order(int number) { ordered.emplace(std::to_string(number) + " as a key of some length", row(number)); }
    void hash(int number) {
        auto& rows = hashed[Tag<N>{number % 7}];
        rows.push_back(row(number));
        std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return b < a; });
    }
    void enqueue(int number) {
        if (number % 3 == 0) queue.emplace_back(number);
        else if (number % 3 == 1) queue.emplace_back(std::to_string(number) + " in a queue of instance");
        else queue.emplace_back(row(number));
    }
    void name(int number) { names.emplace(number, "a name that is too long for its place " + std::to_string(number)); }
    void step(int number) {
        auto prefix = std::string(40 + N % 8, 'p');
        steps.push_back([prefix, number](const Row<N>& row) { return prefix + row.name + std::to_string(number); });
        std::string text;
        for (const auto& [key, row] : ordered) text += steps.back()(row);
        names.emplace(number, text);
    }
    void split(int number) {
        auto text = std::to_string(number) + ", a text of several words in instance " + std::to_string(N);
        for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
            end = std::min(text.find(' ', begin), text.size());
            words.push_back(text.substr(begin, end - begin) + " and enough letters to be allocated");
            lengths[static_cast<int>(end - begin)].push_back(number);
        }
        if (number % 2 == 0) words.insert(words.begin(), text);
        joined.append(text).append(words.back());
    }
    void count(int number) {
        lengths.emplace(number, std::vector<int>(10 + number % 5, number));
        matrix.emplace_back(20 + N % 4, number * 0.25);
        matrix.back().push_back(number);
        positions.insert({"position " + std::to_string(number) + " of a longer name", matrix.size()});
        boxes.push_back(std::make_unique<std::string>(joined + std::to_string(number) + " in a box of its own"));
    }
};

template <int N> void walk(Random& random, Kept& kept, int depth);

// Fills a table and goes on from there.
template <int N> void fill(Random& random, Kept& kept, int depth) {
    auto table = std::make_shared<Table<N>>();
    auto number = static_cast<int>(random() % 1000);
    switch (random() % 7) {
    case 0: table->order(number); break;
    case 1: table->hash(number); break;
    case 2: table->enqueue(number); break;
    case 3: table->name(number); break;
    case 4: table->split(number); break;
    case 5: table->count(number); break;
    default: table->order(number); table->step(number);
    }
    kept.push_back(std::move(table));
    walk<(N * 7 + 3) % COUNT>(random, kept, depth - 1);
}

template <int N> void walk(Random& random, Kept& kept, int depth) {
    if (depth <= 0) return;
    switch (random() % 6) {
    case 0: return walk<(N + 1) % COUNT>(random, kept, depth - 1);
    case 1: fill<N>(random, kept, depth); break;
    case 2: fill<(N * 3 + 1) % COUNT>(random, kept, depth); break;
    case 3: walk<(N * 5 + 2) % COUNT>(random, kept, depth - 1); break;
    case 4: std::invoke([&](auto next) { fill<(N + 11) % COUNT>(random, kept, next); }, depth - 1); break;
    default: {
        std::function<void(int)> next = [&](int depth) { walk<(N * 2 + 5) % COUNT>(random, kept, depth); };
        next(depth - 1);
        kept.push_back(std::make_shared<std::string>(30 + N, 'k'));
    }
    }
}

// Walks `rounds` random ways through the instances.
void work(unsigned seed, int rounds, Kept& kept) {
    static constexpr auto starts = []<int... N>(std::integer_sequence<int, N...>) {
        return std::array<void (*)(Random&, Kept&, int), COUNT>{walk<N>...};
    }(std::make_integer_sequence<int, COUNT>{});
    Random random(seed * 7919 + UNIT + 1);
    for (int i = 0; i < rounds; i++) starts[random() % COUNT](random, kept, 10);
}

const bool known = units().emplace(UNIT, work).second;

}
