/* A library loaded while the program runs: load LIBRARY, compiled as the program, and with -DPLUGIN -shared as the
   library. When a line comes, uses a quarter of a second of CPU time itself and as much in the library. */
#include <time.h>

static inline int used_less(double seconds) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9 < seconds;
}

static volatile unsigned long sink;

#ifdef PLUGIN
__attribute__((noinline)) void work_in_library(void) {
    while (used_less(0.5)) for (int i = 0; i < 20000; i++) sink += i;
}
#else
#include <dlfcn.h>
#include <stdio.h>

__attribute__((noinline)) void work_in_program(void) {
    while (used_less(0.25)) for (int i = 0; i < 20000; i++) sink += i;
}

int main(int count, char **words) {
    char line[16];
    if (count < 2 || !fgets(line, sizeof line, stdin)) return 1;
    work_in_program();
    void *library = dlopen(words[1], RTLD_NOW);
    void (*work)(void) = library ? (void (*)(void))dlsym(library, "work_in_library") : 0;
    if (!work) return 1;
    work();
    return 0;
}
#endif
