// The program behind the recorded CPU and heap profiles here. `record.sh` builds it three times and keeps what the profilers write.
//   work cpu FILE     burns CPU under gperftools' CPU profiler
//   work heap FILE    allocates under tcmalloc's heap profiler, or lets jemalloc dump
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#ifdef WITH_PROFILER
#include <gperftools/profiler.h>
#endif
#ifdef WITH_TCMALLOC
#include <gperftools/heap-profiler.h>
#endif
#ifdef WITH_JEMALLOC
#include <jemalloc/jemalloc.h>
#endif

static volatile unsigned long sink;
static void *kept[1024];

__attribute__((noinline)) void burn_a(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void burn_b(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink ^= i + 3; }
__attribute__((noinline)) void work(int depth) {
    if (depth > 0) { work(depth - 1); sink++; return; }
    burn_a(280000000);
    burn_b(120000000);
}
__attribute__((noinline)) void *keep_one(size_t bytes) { void *block = malloc(bytes); memset(block, 1, bytes); return block; }
__attribute__((noinline)) void allocate(int first, int count, size_t bytes) {
    for (int i = 0; i < count; i++) kept[first + i] = keep_one(bytes);
    for (int i = 0; i < count / 2; i++) { free(kept[first + i]); kept[first + i] = NULL; }
}
static void *second_thread(void *unused) {
    (void)unused;
#ifdef WITH_JEMALLOC
    const char *name = "second thread";
    mallctl("thread.prof.name", NULL, NULL, &name, sizeof name);
#endif
    allocate(512, 64, 65536);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (strcmp(argv[1], "cpu") == 0) {
#ifdef WITH_PROFILER
        ProfilerStart(argv[2]);
        work(3); work(1); burn_b(80000000);
        ProfilerStop();
#endif
        return 0;
    }
#ifdef WITH_TCMALLOC
    HeapProfilerStart(argv[2]);
#endif
    pthread_t thread;
    allocate(0, 256, 8192);
    pthread_create(&thread, NULL, second_thread, NULL);
    pthread_join(thread, NULL);
#ifdef WITH_TCMALLOC
    HeapProfilerDump("end of work");
    HeapProfilerStop();
#endif
#ifdef WITH_JEMALLOC
    const char *path = argv[2];
    if (mallctl("prof.dump", NULL, NULL, &path, sizeof path) != 0) return 1;
#endif
    return 0;
}
