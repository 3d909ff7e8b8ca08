// A program that uses signals in ways that are its right. Its argument names the way; it says "ready", reads a line, works for the CPU seconds that SECONDS names
// (or a number of rounds in proportion), and says how it went.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;
static volatile int stop;
static volatile long own, others, nested;
static double length;

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void work(double seconds) {
    unsigned long x = sink + 1;
    for (double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds; now(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 100000; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}

static void on_usr1(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    volatile char room[512];
    memset((void *)room, 0x5a, sizeof room);
    own++;
}

static void *signalled(void *unused) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    while (!stop) work(0.01);
    return unused;
}

// A thread with an alternate stack gets signals without pause, whose handler runs there.
static int onstack(void) {
    struct sigaction action = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, signalled, NULL);
    for (; own < 5000 * length; usleep(50)) pthread_kill(thread, SIGUSR1);
    stop = 1;
    pthread_join(thread, NULL);
    return own == 0;
}

static void cleanup(void *count) { (*(volatile long *)count)++; }

static void *cancelled(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(cleanup, (void *)&own);
    for (volatile unsigned long i = 0;; i++) sink++;
    pthread_cleanup_pop(0);
    return unused;
}

// Threads are cancelled while they compute: a signal of the C library's own.
static int cancel(void) {
    for (int round = 0; round < 700 * length; round++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, cancelled, NULL);
        usleep(500);
        for (int i = 0; i < 2; i++) pthread_cancel(threads[i]);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    }
    return 0;
}

static void on_prof(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (info->si_code == SI_KERNEL) own++; else others++;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (sigismember(&mask, SIGUSR1) != 1 || sigismember(&mask, SIGUSR2)) nested++;
}

static int installed(void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction found;
    sigaction(SIGPROF, NULL, &found);
    return found.sa_sigaction == handler && (found.sa_flags & 0xffffffff & ~0x04000000) == (unsigned)flags &&
           sigismember(&found.sa_mask, SIGUSR1) == 1;
}

// SIGPROF is the program's: its timer, its handler, and its questions are answered as it expects.
static int owner(void) {
    struct sigaction action = {.sa_sigaction = on_prof, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGPROF, &action, NULL);
    struct itimerval every = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_PROF, &every, NULL);
    work(length / 2);
    int is_kept = installed(on_prof, SA_SIGINFO | SA_RESTART);
    work(length / 2);
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_PROF, &every, NULL);
    int is_former = signal(SIGPROF, SIG_IGN) == (void (*)(int))on_prof && signal(SIGPROF, SIG_DFL) == SIG_IGN;
    printf("own %d others %ld kept %d former %d wrong masks %ld\n", own > 0, others, is_kept, is_former, nested);
    return 0;
}

static void on_kill(int signal) {
    (void)signal;
    own++;
}

// Each signal that the program sends itself arrives, in its own thread.
static int sender(void) {
    signal(SIGPROF, on_kill);
    long lost = 0;
    for (int round = 0; round < 5000 * length && !lost; round++) {
        long before = own;
        double limit = now(CLOCK_MONOTONIC) + 120;
        kill(getpid(), SIGPROF);
        while (own == before && now(CLOCK_MONOTONIC) < limit) usleep(1);
        lost += own == before;
    }
    printf("lost %ld\n", lost);
    return 0;
}

// All handlers are put back to their defaults, as daemons do.
static int reset(void) {
    work(length / 4);
    for (int signal_number = 1; signal_number < 32; signal_number++) signal(signal_number, SIG_DFL);
    work(length);
    return 0;
}

// The default of SIGPROF is to end the process, and a signal that is not the sampler's does.
static int deadly(void) {
    work(length / 2);
    kill(getpid(), SIGPROF);
    work(10);
    return 0;
}

// An alternate stack as the headers say, which is too small for the signal frames of many processors, and is never used.
static int tiny(void) {
    char stack[2048];
    stack_t small = {.ss_sp = stack, .ss_size = sizeof stack}, found;
    if (sigaltstack(&small, NULL)) return 2;
    work(length);
    sigaltstack(NULL, &found);
    printf("same %d\n", found.ss_sp == small.ss_sp && found.ss_size == small.ss_size && found.ss_flags == 0);
    small.ss_flags = SS_DISABLE;
    return sigaltstack(&small, &found) || found.ss_size != sizeof stack;
}

static void *waiting(void *unused) {
    sigset_t all;
    sigfillset(&all);
    int number = 0;
    sigwait(&all, &number);
    printf("signal %d\n", number);
    return unused;
}

// A thread waits for every signal, while the others block them.
static int waiter(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, waiting, NULL);
    work(length);
    pthread_kill(thread, SIGUSR1);
    return pthread_join(thread, NULL);
}

// The process becomes another program, one way or another; the next round is the number of the way.
static int execute(const char *self, int way) {
    char number[16];
    // The first one is captured.
    double seconds = way == 0 ? 0.1 : 0.01;
    work(seconds);
    snprintf(number, sizeof number, "%d", way + 1);
    // Copying long arguments takes the kernel a while, in which signals come.
    enum { LONG = 14, BYTES = 100000 };
    char *words[4 + LONG] = {(char *)self, "execute", number};
    for (int i = 0; way == 0 && i < LONG; i++) memset(words[3 + i] = calloc(1, BYTES), 'a', BYTES - 1);
    extern char **environ;
    if (way == 0) unsetenv("PROCPROF_LISTEN");
    execl("/no/such/program", "a", "b", "c", "d", "e", "f", "g", (char *)NULL);
    work(seconds);
    switch (way) {
        case 0: execve(self, words, environ); break;
        case 1: execv(self, words); break;
        case 2: execvp(self, words); break;
        case 3: execvpe(self, words, environ); break;
        case 4: execl(self, self, "execute", number, "3", "4", "5", "6", "7", (char *)NULL); break;
        case 5: execlp(self, self, "execute", number, (char *)NULL); break;
        case 6: execle(self, self, "execute", number, "3", "4", "5", "6", "7", (char *)NULL, environ); break;
        default: puts("executed"); return 0;
    }
    return 9;
}

int main(int count, char **words) {
    const char *way = words[1];
    int next = count > 2 ? atoi(words[2]) : 0;
    length = atof(getenv("SECONDS"));
    if (count == 2) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    int code = !strcmp(way, "onstack")   ? onstack()
               : !strcmp(way, "cancel")  ? cancel()
               : !strcmp(way, "owner")   ? owner()
               : !strcmp(way, "sender")  ? sender()
               : !strcmp(way, "reset")   ? reset()
               : !strcmp(way, "deadly")  ? deadly()
               : !strcmp(way, "tiny")    ? tiny()
               : !strcmp(way, "waiter")  ? waiter()
               : !strcmp(way, "execute") ? execute(words[0], next)
                                         : 99;
    if (code == 0) puts("ok");
    return code;
}
