/* Processes and threads that end before a sample of them is due.
   short spawn|threads COUNT: after a line on standard input, COUNT programs (this one, by posix_spawn) or threads run
   one after another, 2 ms of CPU time each, and before each of them own_work runs for 1 ms.
   Prints the CPU time that it has used since that line, its children's included, in nanoseconds. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
static volatile unsigned long sink;

static double used(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static double used_by_all(void) {
    struct rusage of;
    getrusage(RUSAGE_CHILDREN, &of);
    double children = (of.ru_utime.tv_sec + of.ru_stime.tv_sec) * 1e9 + (of.ru_utime.tv_usec + of.ru_stime.tv_usec) * 1e3;
    return children + used(CLOCK_PROCESS_CPUTIME_ID);
}

static void spin(double nanos) {
    double end = used(CLOCK_THREAD_CPUTIME_ID) + nanos;
    while (used(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 1000; i++) sink += i;
}
__attribute__((noinline)) void own_work(void) { spin(1e6); sink++; }
__attribute__((noinline)) void *short_work(void *none) { spin(2e6); sink++; return none; }

int main(int count, char **words) {
    if (count < 2) { short_work(0); return 0; }
    int is_spawn = !strcmp(words[1], "spawn"), rounds = atoi(words[2]);
    getchar();
    double before = used_by_all();
    for (int i = 0; i < rounds; i++) {
        own_work();
        if (is_spawn) {
            char *alone[] = {words[0], 0};
            pid_t pid;
            if (posix_spawn(&pid, words[0], 0, 0, alone, environ)) return 1;
            waitpid(pid, 0, 0);
        } else {
            pthread_t thread;
            if (pthread_create(&thread, 0, short_work, 0)) return 1;
            pthread_join(thread, 0);
        }
    }
    printf("%.0f\n", used_by_all() - before);
    return 0;
}
