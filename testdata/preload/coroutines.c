// Coroutines of a program's own making. It says "ready", reads a line, runs for the CPU seconds that SECONDS names,
// and says "ok".
// "below": on a stack right below that of its thread (one mapping for the kernel, as it may be below the main thread's control block, too), in generated code
// that uses the frame pointer for data; what it points to is unmapped meanwhile. "small": on stacks of 8 KiB that allocate, while libraries come and go.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

enum { PAGE = 4096, PAGES = 64 };

static ucontext_t here, there;
static char *low;
static void (*code)(uint64_t frame_pointer, uint64_t rounds);
static volatile unsigned long sink;

static double length;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void run_on(char *stack, size_t bytes, void (*body)(void)) {
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = bytes;
    there.uc_link = &here;
    makecontext(&there, body, 0);
    swapcontext(&here, &there);
}

static void generated(void) {
    double start = now();
    for (int is_there = 1; now() < start + length;) {
        code((uint64_t)low + 32 * PAGE, 1000000);
        if (is_there && now() > start + length / 2) {
            munmap(low + 30 * PAGE, 4 * PAGE);
            is_there = 0;
        }
    }
}

static void *in_thread(void *unused) {
    run_on(low, 16 * PAGE, generated);
    return unused;
}

static int below(void) {
#ifdef __x86_64__
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    low = mmap(NULL, 2 * PAGES * PAGE, protection, flags, -1, 0);
    // push rbp; mov rbp, rdi; loop: dec rsi; jnz loop; pop rbp; ret
    unsigned char bytes[] = {0x55, 0x48, 0x89, 0xfd, 0x48, 0xff, 0xce, 0x75, 0xfb, 0x5d, 0xc3};
    void *memory = mmap(NULL, PAGE, protection | PROT_EXEC, flags, -1, 0);
    code = (void (*)(uint64_t, uint64_t))memcpy(memory, bytes, sizeof bytes);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, low + PAGES * PAGE, PAGES * PAGE);
    return pthread_create(&thread, &attributes, in_thread, NULL) || pthread_join(thread, NULL);
#else
    return 0;
#endif
}

static unsigned long deeper(unsigned long x, int depth) {
    if (depth) return deeper(x + depth, depth - 1) * 3 + 1;
    char *blocks[20];
    for (int i = 0; i < 20; i++) memset(blocks[i] = malloc(100 + i * 37), 1, 10);
    for (int i = 0; i < 2000; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    for (int i = 0; i < 20; i++) free(blocks[i]);
    return x;
}

static void allocating(void) {
    for (int i = 0; i < 20; i++) sink += deeper(i, 5);
}

static int small(void) {
    double end = now() + length;
    for (unsigned round = 0; now() < end; round++) {
        char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(memory, PAGE, PROT_NONE);
        void *library = dlopen(round & 1 ? "libz.so.1" : "libcrypt.so.1", RTLD_NOW);
        run_on(memory + PAGE, 2 * PAGE, allocating);
        munmap(memory, 3 * PAGE);
        if (library) dlclose(library);
    }
    return 0;
}

int main(int count, char **words) {
    puts("ready");
    fflush(stdout);
    getchar();
    length = atof(getenv("SECONDS"));
    int failed = count > 1 && !strcmp(words[1], "below") ? below() : small();
    if (!failed) puts("ok");
    return failed;
}
