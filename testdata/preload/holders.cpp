// Holds one mutex in different functions while two other threads want it, whenever a line is read, and keeps exact books of how long each function held
// it. A line names the way: `one` function that lets go and takes the mutex again at once, `two` of them in turn, 7 ms to 3 ms, or one that lets go by its
// `last` call. Prints each function and the nanoseconds it held the mutex, then an empty line.
#include <mutex>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <thread>
#include <time.h>
#include <unistd.h>

static std::mutex a_mutex;
static volatile bool is_over;

struct Books {
    const char *function;
    uint64_t nanos;
};

static uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

#define HOLDS(name) __attribute__((noinline, noclone)) void name(Books &books, int micros)

static inline __attribute__((always_inline)) void hold(Books &books, const char *function, int micros) {
    a_mutex.lock();
    uint64_t start = now();
    if (micros)
        usleep(micros);
    books.function = function;
    books.nanos += now() - start;
}

// The first three have something to do after they let go, so that they are still there then; the last one has not.
HOLDS(holds_nearly_always) {
    hold(books, __func__, micros);
    a_mutex.unlock();
    asm volatile("" ::: "memory");
}

HOLDS(holds_for_long) {
    hold(books, __func__, micros);
    a_mutex.unlock();
    asm volatile("" ::: "memory");
}

HOLDS(holds_for_short) {
    hold(books, __func__, micros);
    a_mutex.unlock();
    asm volatile("" ::: "memory");
}

HOLDS(wants_it) {
    hold(books, __func__, micros);
    a_mutex.unlock();
    asm volatile("" ::: "memory");
}

HOLDS(lets_go_at_last) {
    hold(books, __func__, micros);
    a_mutex.unlock();
}

__attribute__((noinline, noclone)) void calls_it(Books &books, int micros) {
    lets_go_at_last(books, micros);
    asm volatile("" ::: "memory");
}

static void round_of(const char *way) {
    Books books[4] = {};
    is_over = false;
    auto want = [](Books &books) {
        while (!is_over) {
            wants_it(books, 0);
            usleep(200);
        }
    };
    std::thread others[] = {std::thread(want, std::ref(books[2])), std::thread(want, std::ref(books[3]))};
    uint64_t start = now();
    while (now() - start < 2000000000) {
        if (!strncmp(way, "one", 3)) {
            holds_nearly_always(books[0], 2000);
        } else if (!strncmp(way, "two", 3)) {
            holds_for_long(books[0], 7000);
            holds_for_short(books[1], 3000);
        } else {
            calls_it(books[0], 2000);
        }
    }
    is_over = true;
    for (std::thread &other : others)
        other.join();
    for (Books &book : books)
        if (book.function)
            printf("%s %llu\n", book.function, (unsigned long long)book.nanos);
    printf("\n");
    fflush(stdout);
}

int main() {
    for (char line[16]; fgets(line, sizeof line, stdin);)
        round_of(line);
}
