// Forks two workers that serve without allocating, until the input ends: one waits by epoll_wait, one by accept4, both for moments, and both use the CPU between.
// A second thread of the first one waits by epoll_wait and is cancelled there. Prints the ids of the workers.
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
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

static void *waits_for_ever(void *epoll) {
    struct epoll_event event;
    epoll_wait(*(int *)epoll, &event, 1, -1);
    return NULL;
}

__attribute__((noinline, noreturn)) void serves_by_epoll(void) {
    struct epoll_event event;
    int epoll = epoll_create1(0);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, waits_for_ever, &epoll);
    usleep(10000);
    pthread_cancel(thread);
    if (pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED)
        _exit(1);
    for (;;) {
        epoll_wait(epoll, &event, 1, 1);
        burn(1000000);
    }
}

__attribute__((noinline, noreturn)) void serves_by_accept(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0)
        _exit(1);
    for (;;) {
        if (accept4(listener, NULL, NULL, SOCK_CLOEXEC) >= 0)
            _exit(1);
        burn(1000000);
    }
}

static pid_t begin(void (*work)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
    }
    return pid;
}

int main(void) {
    pid_t workers[] = {begin(serves_by_epoll), begin(serves_by_accept)};
    printf("%d %d\n", workers[0], workers[1]);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    int is_well = 1;
    for (int worker = 0; worker < 2; worker++) {
        int status;
        kill(workers[worker], SIGKILL);
        waitpid(workers[worker], &status, 0);
        is_well &= WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    return !is_well;
}
