// Forks one worker after the other, each of which uses half a second of CPU time and ends: by `_exit` if that is the argument, else by `exit`.
// For each line it reads, prints the CPU nanoseconds of all workers that have ended so far. Ends with its input.
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

__attribute__((noinline)) void works_briefly(void) {
    struct timespec time;
    do {
        uint64_t number = sink + 1;
        for (int round = 0; round < 100000; round++) {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
        }
        sink = number;
        char *volatile block = malloc(64 << 10);
        free(block);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    } while (time.tv_sec * 1000 + time.tv_nsec / 1000000 < 500);
}

int main(int count, char **arguments) {
    int is_abrupt = count > 1 && strcmp(arguments[1], "_exit") == 0;
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        pid_t worker = fork();
        if (worker == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            works_briefly();
            if (is_abrupt) _exit(0);
            exit(0);
        }
        waitpid(worker, 0, 0);
        struct pollfd input = {.fd = 0, .events = POLLIN};
        char line[16];
        if (poll(&input, 1, 0) == 0) continue;
        if (!fgets(line, sizeof line, stdin)) return 0;
        struct rusage used;
        getrusage(RUSAGE_CHILDREN, &used);
        long long micros = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000ll + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
        printf("%lld\n", micros * 1000);
        fflush(stdout);
    }
}
