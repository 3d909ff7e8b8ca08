// Functions that the linker never names, in namespaces, classes and functions.
static volatile int sink;

namespace outer {
namespace {

template <int N>
[[gnu::always_inline]] inline int mix(int value) {
    sink = sink + value;
    return value * 31 + N;
}

struct Hidden {
    struct Deep {
        [[gnu::always_inline]] int inlined(int value) const {
            sink = sink + value;
            return value ^ 5;
        }
    };
};

}  // namespace

[[gnu::noinline]] int calls(int value) {
    auto local = [](int inner) __attribute__((always_inline)) {
        sink = sink + 1;
        return inner * 7;
    };
    return mix<3>(value) + Hidden::Deep{}.inlined(value) + local(value);
}

}  // namespace outer

int main(int count, char**) {
    return outer::calls(count);
}
