/* Steady work for measurements. Prints what it has done and the CPU time that took, in nanoseconds.
   pace work SECONDS: rounds of a loop 70 calls deep, for so many seconds of CPU time.
   pace switch SECONDS: a byte goes to and fro between two threads, for so many seconds of the clock.
   pace tick SECONDS: wakes up each 20 ms for a short loop. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 70

static volatile unsigned long sink;
static int there[2], back[2];

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) void spin(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i;
}

__attribute__((noinline)) int deep(int n) {
    int result = 1;
    if (n == 0) spin(20000);
    else result = deep(n - 1) + 1;
    sink++;
    return result;
}

static void *answer(void *none) {
    char byte;
    while (read(there[0], &byte, 1) == 1) if (write(back[1], &byte, 1) != 1) break;
    return none;
}

int main(int count, char **words) {
    const char *kind = count > 1 ? words[1] : "work";
    double seconds = count > 2 ? atof(words[2]) : 1, end = now(CLOCK_MONOTONIC) + seconds;
    unsigned long rounds = 0;
    if (!strcmp(kind, "work")) {
        for (; now(CLOCK_PROCESS_CPUTIME_ID) < seconds; rounds++) deep(DEPTH);
    } else if (!strcmp(kind, "tick")) {
        for (; now(CLOCK_MONOTONIC) < end; rounds++) { deep(10); usleep(20000); }
    } else {
        pthread_t other;
        char byte = 0;
        if (pipe(there) || pipe(back) || pthread_create(&other, NULL, answer, NULL)) return 1;
        for (; now(CLOCK_MONOTONIC) < end; rounds++)
            if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
    }
    printf("%lu %.0f\n", rounds, now(CLOCK_PROCESS_CPUTIME_ID) * 1e9);
    return 0;
}
