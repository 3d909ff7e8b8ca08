// Forks three workers that use the CPU until the input ends: two that allocate while they do, each in a function of its own, and one that never does.
// Prints the ids of the workers, and for each line it reads the CPU nanoseconds each has used so far. The program itself only waits.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static void burn(int rounds) {
    uint64_t number = sink + 1;
    for (int round = 0; round < rounds; round++) {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
    }
    sink = number;
}

#define WORKER(name, allocates)                                                                                                                      \
    __attribute__((noinline, noreturn)) void name(void) {                                                                                            \
        for (;;) {                                                                                                                                   \
            burn(100000);                                                                                                                            \
            if (allocates) {                                                                                                                         \
                char *volatile block = malloc(64 << 10);                                                                                             \
                free(block);                                                                                                                         \
            }                                                                                                                                        \
        }                                                                                                                                            \
    }

WORKER(works_as_one, 1)
WORKER(works_as_another, 1)
WORKER(works_without_memory, 0)

static pid_t begin(void (*work)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
    }
    return pid;
}

int main(void) {
    pid_t workers[] = {begin(works_as_one), begin(works_as_another), begin(works_without_memory)};
    printf("%d %d %d\n", workers[0], workers[1], workers[2]);
    fflush(stdout);
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        for (int worker = 0; worker < 3; worker++) {
            clockid_t clock;
            struct timespec time;
            clock_getcpuclockid(workers[worker], &clock);
            clock_gettime(clock, &time);
            printf("%lld ", time.tv_sec * 1000000000ll + time.tv_nsec);
        }
        printf("\n");
        fflush(stdout);
    }
    for (int worker = 0; worker < 3; worker++) {
        kill(workers[worker], SIGKILL);
        waitpid(workers[worker], 0, 0);
    }
}
