/* CPU time with a known split: hot_a takes 70 % and hot_b 30 % of what each thread uses, DEPTH calls below its start.
   burn SECONDS [THREADS [CHILDREN [REST]]]: CPU seconds of each thread; children are forked and do the same, and end
   with their parent. After each round, which takes about 0.2 ms, a thread rests for REST microseconds.
   Prints the CPU time it has used, its children's included, in nanoseconds. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 20

static double seconds;
static int rest;
/* Rounds differ in length, so that samples at a steady rate do not find the same part of each. */
static __thread unsigned long scale = 100;
static volatile unsigned long sink;

__attribute__((noinline)) void spin(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i;
}
__attribute__((noinline)) void hot_a(void) { spin(700 * scale); sink++; }
__attribute__((noinline)) void hot_b(void) { spin(300 * scale); sink++; }
__attribute__((noinline)) int deep(int n) {
    int result = 1;
    if (n == 0) { hot_a(); hot_b(); }
    else result = deep(n - 1) + 1;
    sink++;
    return result;
}

static double used(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *work(void *name) {
    if (name) prctl(PR_SET_NAME, name);
    unsigned random = 1;
    while (used(CLOCK_THREAD_CPUTIME_ID) < seconds) {
        scale = 50 + (random = random * 1103515245 + 12345) / 65536 % 101;
        deep(DEPTH);
        if (rest) usleep(rest);
    }
    return NULL;
}

int main(int count, char **words) {
    seconds = count > 1 ? atof(words[1]) : 1;
    int threads = count > 2 ? atoi(words[2]) : 1, children = count > 3 ? atoi(words[3]) : 0;
    rest = count > 4 ? atoi(words[4]) : 0;
    for (int i = 0; i < children; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, "child");
            work(NULL);
            _exit(0);
        }
    pthread_t ids[64];
    for (int i = 1; i < threads && i < 64; i++) pthread_create(&ids[i], NULL, work, "worker");
    work(NULL);
    for (int i = 1; i < threads && i < 64; i++) pthread_join(ids[i], NULL);
    while (wait(NULL) > 0) {}
    double total = used(CLOCK_PROCESS_CPUTIME_ID);
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    total += usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6 + usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6;
    printf("%.0f\n", total * 1e9);
    return 0;
}
