// Allocates from C++ of all kinds and writes two heap dumps: heap A.heap B.heap
// Build: c++ -g -O2 -std=c++17 heap.cpp; run with LD_PRELOAD=libjemalloc.so.2 and
// MALLOC_CONF=prof:true,prof_accum:true,lg_prof_sample:10
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" int mallctl(const char *, void *, std::size_t *, void *, std::size_t) __attribute__((weak));

namespace shop {

struct Item {
    std::string name;
    std::vector<int> prices;
    explicit Item(int number) : name("an item with a name that is long, number " + std::to_string(number)), prices(32 + number % 8) {}
    virtual ~Item() = default;
    virtual void restock(std::size_t count) { prices.resize(prices.size() + count); }
};

struct Rare : Item {
    std::list<double> history;
    explicit Rare(int number) : Item(number), history(20, number) {}
    void restock(std::size_t count) override {
        Item::restock(count);
        history.resize(history.size() + count);
    }
};

template <typename Key, typename Value> class Index {
  public:
    template <typename Maker> __attribute__((noinline)) void fill(int from, int to, const Maker &maker) {
        for (int number = from; number < to; number++) {
            entries.emplace(Key(number), maker(number));
        }
    }
    std::map<Key, Value> entries;
};

// One name, three functions.
__attribute__((noinline)) std::unique_ptr<Item> make(int number) { return std::make_unique<Item>(number); }
__attribute__((noinline)) std::unique_ptr<Item> make(long number) { return std::make_unique<Rare>(static_cast<int>(number)); }
__attribute__((noinline)) std::unique_ptr<Item> make(const std::string &number) { return std::make_unique<Rare>(std::stoi(number)); }

} // namespace shop

namespace {

struct Order {
    char bytes[700];
};

std::vector<std::unique_ptr<shop::Item>> items;
std::vector<std::function<Order *(int)>> makers;
std::vector<Order *> orders;
shop::Index<int, std::vector<char>> by_number;
shop::Index<long, std::shared_ptr<shop::Item>> by_key;

__attribute__((noinline)) std::string report(int rounds) {
    std::ostringstream text;
    for (int i = 0; i < rounds; i++) {
        text << "round " << i << " of " << rounds << '\n';
    }
    return text.str();
}

__attribute__((noinline)) void work(int round) {
    for (int i = 0; i < 40; i++) {
        items.push_back(shop::make(i));
        items.push_back(shop::make(static_cast<long>(i)));
        items.push_back(shop::make(std::to_string(i)));
        items.back()->restock(static_cast<std::size_t>(i));
        makers.push_back([copy = std::vector<int>(100, i)](int count) { return new Order[static_cast<std::size_t>(count) + copy.size() % 2]; });
        orders.push_back(makers.back()(3));
    }
    by_number.fill(round * 100, round * 100 + 50, [](int size) { return std::vector<char>(static_cast<std::size_t>(500 + size)); });
    by_key.fill(round * 100, round * 100 + 50, [](int number) { return std::make_shared<shop::Rare>(number); });
}

int dump(const char *file) { return mallctl == nullptr ? 4 : mallctl("prof.dump", nullptr, nullptr, &file, sizeof file); }

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    work(1);
    if (dump(argv[1]) != 0) {
        return 3;
    }
    items.erase(items.begin(), items.begin() + 60);
    std::string text;
    std::thread other([&text] { text = report(20000); });
    other.join();
    work(2);
    return dump(argv[2]) == 0 && !text.empty() ? 0 : 3;
}
