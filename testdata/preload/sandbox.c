/* A thread that works, sandboxes itself at the first line of standard input, and works on: `strict` is seccomp's strict mode, `filter` allows little more than to return
   from a signal handler, `malloc` that and what malloc calls, `late` neither, by a call of `prctl`, `raw` likewise by one of `syscall`; `deaf` is as `late`, but from the beginning on; `refused` is
   none, after trying; `common` is as `late`, for all threads. What else it calls ends it, in the filters the whole process. At the end of standard input the
   exit status says whether it still worked. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *mode;
static volatile unsigned long beats;
static volatile int is_inside, is_told;

static void work(void) {
    if (strcmp(mode, "malloc") == 0)
        for (int size = 1; size < 1 << 16; size += 1 << 10)
            free(malloc(size));
    unsigned long state = 1;
    for (int round = 0; round < 100000; round++)
        state = state * 6364136223846793005 + 1442695040888963407;
    beats += 1 + (state == 0);
}

/* The kernel refuses a filter of no steps. */
static void fail_to_filter(void) {
    struct sock_fprog program = {0, NULL};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != -1 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != -1)
        _exit(2);
}

static void permit(struct sock_filter *steps, int *count, int call) {
    steps[(*count)++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    steps[(*count)++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

static void filter(void) {
    static const int of_malloc[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_brk}, of_main[] = {SYS_read, SYS_write, SYS_clock_nanosleep};
    struct sock_filter steps[32] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int count = 1, is_deadly = strcmp(mode, "late") == 0 || strcmp(mode, "raw") == 0 || strcmp(mode, "deaf") == 0;
    permit(steps, &count, SYS_exit_group);
    if (!is_deadly)
        permit(steps, &count, SYS_rt_sigreturn);
    for (int call = 0; call < 5 && strcmp(mode, "malloc") == 0; call++)
        permit(steps, &count, of_malloc[call]);
    for (int call = 0; call < 3 && strcmp(mode, "common") == 0; call++)
        permit(steps, &count, of_main[call]);
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {count, steps};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strcmp(mode, "common") == 0)
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    else if (strcmp(mode, "raw") == 0)
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    else
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *sandboxed(void *argument) {
    while (strcmp(mode, "deaf") != 0 && !is_told)
        work();
    if (strcmp(mode, "refused") == 0)
        fail_to_filter();
    else if (strcmp(mode, "strict") == 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    else
        filter();
    is_inside = 1;
    for (;;)
        work();
    return argument;
}

int main(int count, char **arguments) {
    mode = arguments[count - 1];
    pthread_t thread;
    pthread_create(&thread, NULL, sandboxed, NULL);
    while (strcmp(mode, "deaf") == 0 && !is_inside)
        usleep(1000);
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF) {
        is_told = 1;
        while (!is_inside)
            usleep(1000);
        printf("inside\n");
        fflush(stdout);
    }
    unsigned long before = beats;
    for (double start = now(); beats == before && now() - start < 300;)
        usleep(1000);
    _exit(beats == before || !is_inside);
}
