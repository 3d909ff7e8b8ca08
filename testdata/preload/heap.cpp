// Allocates by every function there is, over four threads, and keeps exact books: objects and bytes in all, objects and bytes in use, and the
// variances of what a sampler at the rate of argv[1] bytes estimates of them. Prints them, then waits for the end of its input.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete" // The optimizer does not see which way a block has come.
#pragma GCC diagnostic ignored "-Wmismatched-dealloc"
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <new>
#include <thread>
#include <vector>

struct Block {
    void *pointer;
    size_t size;
    int way;
};

struct Account {
    double exact[4] = {}, variance[4] = {};
    std::vector<Block> kept;
    uint64_t random;
    double rate;

    uint64_t below(uint64_t bound) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return (random >> 33) % bound;
    }

    void add(size_t size, double sign, int from, int to) {
        double probability = 1 - exp(-(double)size / rate), spread = (1 - probability) / probability;
        for (int column = from; column < to; column++) {
            double value = column % 2 ? size : 1;
            exact[column] += sign * value;
            variance[column] += sign * value * value * spread;
        }
    }
};

__attribute__((noinline)) void *allocate_somehow(int way, size_t size) {
    void *pointer = nullptr;
    switch (way) {
    case 0: return malloc(size);
    case 1: return calloc(1, size);
    case 2: return posix_memalign(&pointer, 64, size) ? nullptr : pointer;
    case 3: return aligned_alloc(32, size);
    case 4: return memalign(128, size);
    case 5: return realloc(nullptr, size);
    case 6: return operator new(size);
    case 7: return operator new[](size, std::nothrow);
    case 8: return operator new(size, std::align_val_t(64));
    case 9: return reallocarray(nullptr, 1, size);
    default: return valloc(size);
    }
}

static void release(const Block &block) {
    switch (block.way) {
    case 6: operator delete(block.pointer, block.size); break;
    case 7: operator delete[](block.pointer); break;
    case 8: operator delete(block.pointer, std::align_val_t(64)); break;
    default: free(block.pointer);
    }
}

static void step(Account &account) {
    uint64_t choice = account.below(10);
    size_t size = ((size_t)1 << (4 + account.below(12)));
    size += account.below(size);
    if (choice < 5 || account.kept.empty()) {
        int way = account.below(11);
        void *pointer = allocate_somehow(way, size);
        if (!pointer || malloc_usable_size(pointer) < size)
            abort();
        memset(pointer, 1, size);
        account.kept.push_back({pointer, size, way});
        account.add(size, 1, 0, 4);
        return;
    }
    size_t index = account.below(account.kept.size());
    Block block = account.kept[index];
    account.add(block.size, -1, 2, 4);
    if (choice == 9 && block.way < 6) {
        account.kept[index] = {realloc(block.pointer, size), size, 0};
        account.add(size, 1, 0, 4);
        return;
    }
    account.kept[index] = account.kept.back();
    account.kept.pop_back();
    release(block);
}

int main(int, char **argv) {
    std::vector<Account> accounts(4);
    std::vector<std::thread> threads;
    for (size_t index = 0; index < accounts.size(); index++)
        threads.emplace_back([&accounts, index, argv] {
            Account &account = accounts[index];
            account.random = index * 0x9e3779b97f4a7c15u + 1;
            account.rate = atof(argv[1]);
            account.kept.reserve(4096);
            for (int steps = 0; steps < 30000; steps++)
                step(account);
        });
    for (auto &thread : threads)
        thread.join();
    for (int column = 0; column < 4; column++) {
        double exact = 0, variance = 0;
        for (auto &account : accounts)
            exact += account.exact[column], variance += account.variance[column];
        printf("%.0f %.0f ", exact, variance);
    }
    printf("\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    _Exit(0);
}
