/* Threads that wait for different reasons: reasons SECONDS. For so long, each repeats its wait, of which its name tells
   the reason: "futex" waits for a condition for 10 ms at a time, "sleep" sleeps 10 ms, "poll" polls a pipe that stays
   empty for 10 ms, "i/o" reads from a pipe to which "sleep" writes each time, "child" waits for a process that sleeps
   20 ms, "signal" waits for a signal for 10 ms. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double end;
static int filled[2], empty[2];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void wait_futex(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 10000000;
    if (until.tv_nsec >= 1000000000) { until.tv_sec++; until.tv_nsec -= 1000000000; }
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&never, &mutex, &until);
    pthread_mutex_unlock(&mutex);
}
static void wait_sleep(void) {
    struct timespec time = {0, 10000000};
    nanosleep(&time, NULL);
    if (write(filled[1], "x", 1) < 0) perror("write");
}
static void wait_poll(void) {
    struct pollfd waiting = {empty[0], POLLIN, 0};
    poll(&waiting, 1, 10);
}
static void wait_io(void) {
    char byte;
    if (read(filled[0], &byte, 1) < 0) perror("read");
}
static void wait_child(void) {
    pid_t child = vfork();
    if (child == 0) { execlp("sleep", "sleep", "0.02", NULL); _exit(1); }
    waitpid(child, NULL, 0);
}
static void wait_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    struct timespec time = {0, 10000000};
    sigtimedwait(&set, NULL, &time);
}

struct thread {
    const char *name;
    void (*wait)(void);
};

/* Has its name before it waits. */
static void *repeat(void *thread) {
    struct thread *self = thread;
    pthread_setname_np(pthread_self(), self->name);
    while (now() < end) self->wait();
    return NULL;
}

int main(int count, char **words) {
    struct thread threads[] = {
        {"futex", wait_futex}, {"poll", wait_poll}, {"i/o", wait_io},
        {"child", wait_child}, {"signal", wait_signal}, {"sleep", wait_sleep},
    };
    end = now() + (count > 1 ? atof(words[1]) : 1);
    if (pipe(filled) < 0 || pipe(empty) < 0) { perror("pipe"); return 1; }
    pthread_t ids[6];
    for (int i = 0; i < 6; i++) pthread_create(&ids[i], NULL, repeat, &threads[i]);
    pthread_join(ids[5], NULL);
    /* The one that reads may have begun another wait. */
    if (write(filled[1], "x", 1) < 0) perror("write");
    for (int i = 0; i < 5; i++) pthread_join(ids[i], NULL);
    return 0;
}
