/* Loads a seccomp filter for all threads, `kill` or `errno` for what it does not permit, so many microseconds after the
 * beginning (`begin`) or after a line of standard input (`line`), and allocates on:
 * `late_filter ACTION WHEN MICROSECONDS`. The filter permits what the program calls, and no new thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void filter(unsigned action) {
    static const int permitted[] = {SYS_read,   SYS_write,   SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_futex,
                                    SYS_mmap,   SYS_munmap,  SYS_brk,  SYS_newfstatat, SYS_clock_gettime, SYS_fstat,
                                    SYS_madvise, SYS_sched_yield, SYS_clock_nanosleep, SYS_restart_syscall};
    struct sock_filter steps[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int count = 1;
    for (unsigned index = 0; index < sizeof permitted / sizeof *permitted; index++) {
        steps[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, permitted[index], 0, 1);
        steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    struct sock_fprog program = {count, steps};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(2);
}

int main(int count, char **arguments) {
    if (count != 4)
        return 3;
    printf("ready\n");
    fflush(stdout);
    if (strcmp(arguments[2], "line") == 0)
        getchar();
    usleep(atoi(arguments[3]));
    filter(strcmp(arguments[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM);
    for (int round = 0; round < 50; round++) {
        for (int size = 1; size < 1 << 16; size += 1 << 9) {
            char *volatile block = malloc(size);
            block[0] = 1;
            free(block);
        }
        usleep(1000);
    }
    printf("ok\n");
    fflush(stdout);
    return 0;
}
