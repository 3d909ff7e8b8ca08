/* Short-lived processes: starts itself COUNT times, one after the other, and each uses MILLISECONDS of CPU time.
   spawn COUNT MILLISECONDS
   Prints the CPU time of all, in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double used(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) void short_work(double seconds) {
    for (double end = used() + seconds; used() < end;)
        for (int i = 0; i < 20000; i++) sink += i;
}

int main(int count, char **words) {
    if (count < 3) { short_work(atof(words[1]) / 1000); return 0; }
    for (int i = 0; i < atoi(words[1]); i++) {
        pid_t child = fork();
        if (child == 0) { execl("/proc/self/exe", "short", words[2], NULL); _exit(1); }
        waitpid(child, NULL, 0);
    }
    struct rusage all[2];
    getrusage(RUSAGE_SELF, &all[0]);
    getrusage(RUSAGE_CHILDREN, &all[1]);
    double total = 0;
    for (int i = 0; i < 2; i++) {
        total += all[i].ru_utime.tv_sec + all[i].ru_utime.tv_usec / 1e6;
        total += all[i].ru_stime.tv_sec + all[i].ru_stime.tv_usec / 1e6;
    }
    printf("%.0f\n", total * 1e9);
    return 0;
}
