// Allocates from several functions and writes two heap dumps: heap A.heap B.heap
// Build: cc -g -O2 heap.c -ljemalloc; run with MALLOC_CONF=prof:true,prof_accum:true,lg_prof_sample:10
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 4096
static void *kept[KEPT];
static int count;

static inline void keep(void *memory) {
    memset(memory, 1, 16);
    kept[count++ % KEPT] = memory;
}

__attribute__((noinline)) static void by_malloc(size_t size) { keep(malloc(size)); }

__attribute__((noinline)) static void by_calloc(size_t size) { keep(calloc(4, size / 4)); }

__attribute__((noinline)) static void by_realloc(size_t size) { keep(realloc(malloc(size / 2), size)); }

__attribute__((noinline)) static void by_text(int number) {
    char text[300];
    snprintf(text, sizeof text, "%0299d", number);
    keep(strdup(text));
}

__attribute__((noinline)) static void recurse(int depth, size_t size) {
    if (depth > 0) {
        recurse(depth - 1, size + 8);
    }
    by_malloc(size);
}

static int compare(const void *a, const void *b) {
    by_calloc(64);
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static void from_library(void) {
    int numbers[64];
    for (int i = 0; i < 64; i++) {
        numbers[i] = (i * 37) % 64;
    }
    qsort(numbers, 64, sizeof numbers[0], compare);
}

__attribute__((noinline)) static void work(int rounds) {
    for (int i = 0; i < rounds; i++) {
        by_malloc(1000 + i % 7);
        by_calloc(2048);
        by_realloc(512 + i % 100);
        by_text(i);
        recurse(i % 12, 256);
        if (i % 16 == 0) {
            from_library();
        }
    }
}

static void let_go(int every) {
    for (int i = 0; i < KEPT; i += every) {
        free(kept[i]);
        kept[i] = NULL;
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    work(40);
    const char *file = argv[1];
    if (mallctl("prof.dump", NULL, NULL, &file, sizeof file) != 0) {
        return 3;
    }
    let_go(3);
    work(60);
    file = argv[2];
    return mallctl("prof.dump", NULL, NULL, &file, sizeof file) == 0 ? 0 : 3;
}
