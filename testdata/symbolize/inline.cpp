// Templates, namespaces, overloads, lambdas and inlined methods.
#include <cstdio>

namespace shapes {

static volatile int sink;

template <typename T>
struct Box {
    T value;
    [[gnu::always_inline]] T twice() const {
        sink = sink + 1;
        return value + value;
    }
    [[gnu::noinline]] T many(int count) const {
        T sum{};
        for (int i = 0; i < count; i++) {
            sum += twice();
        }
        return sum;
    }
};

[[gnu::noinline]] int area(int x) {
    auto square = [](int y) { sink = sink + y; return y * y; };
    return square(x) + Box<int>{x}.many(x);
}

[[gnu::noinline]] double area(double x) {
    return Box<double>{x}.many(3);
}

}  // namespace shapes

int main() {
    std::printf("%d %f\n", shapes::area(4), shapes::area(2.0));
    return 0;
}
