// The process behind the recordings in this folder: burns CPU in two functions (70/30), waits for a lock, grows its heap, and writes
// what brpc's /pprof/profile, /pprof/contention and /pprof/heap would answer. See record.sh.
#include <execinfo.h>
#include <gperftools/profiler.h>
#include <jemalloc/jemalloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;
using Stack = std::vector<void*>;

static std::mutex contended;
static std::mutex waits_lock;
static std::map<Stack, std::pair<long, long>> waits;  // stack -> nanoseconds, count
static volatile unsigned long sink;

static void spin(int milliseconds) {
    auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (Clock::now() < end)
        for (int i = 0; i < 10000; i++) sink = sink * 31 + i;
}

extern "C" __attribute__((noinline)) void hot_70() { spin(7); asm volatile(""); }
extern "C" __attribute__((noinline)) void hot_30() { spin(3); asm volatile(""); }

extern "C" __attribute__((noinline)) void slow_lock() {
    auto start = Clock::now();
    contended.lock();
    long waited = std::chrono::nanoseconds(Clock::now() - start).count();
    spin(1);
    contended.unlock();
    if (waited < 1000) return;
    void* frames[26];
    int depth = backtrace(frames, 26);
    std::lock_guard<std::mutex> guard(waits_lock);
    auto& entry = waits[Stack(frames, frames + depth)];
    entry.first += waited;
    entry.second += 1;
}

extern "C" __attribute__((noinline)) void* grow_heap() { return malloc(512 << 10); }

static void append_maps(FILE* file) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) fprintf(file, "%s\n", line.c_str());
}

static void write_contention(const char* path) {
    FILE* file = fopen(path, "w");
    fprintf(file, "--- contention\ncycles/second=1000000000\n");
    for (auto& [stack, entry] : waits) {
        fprintf(file, "%ld %ld @", entry.first, entry.second);
        for (void* frame : stack) fprintf(file, " %p", frame);
        fprintf(file, "\n");
    }
    append_maps(file);
    fclose(file);
}

int main() {
    std::vector<void*> kept;
    for (int i = 0; i < 64; i++) kept.push_back(grow_heap());
    const char* heap = "heap.jemalloc";
    mallctl("prof.dump", nullptr, nullptr, &heap, sizeof(heap));

    ProfilerStart("cpu.gperftools");
    auto end = Clock::now() + std::chrono::seconds(2);
    while (Clock::now() < end) { hot_70(); hot_30(); }
    ProfilerStop();

    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back([] { for (int n = 0; n < 100; n++) slow_lock(); });
    for (auto& thread : threads) thread.join();
    write_contention("contention.brpc");
}
