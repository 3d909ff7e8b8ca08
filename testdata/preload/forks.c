// A program whose own handler of fork waits for a thread that fights for a lock meanwhile, as allocators' handlers wait for their locks.
// It says "ready", reads a line, forks 50 times for each second that SECONDS names, each child allocates and takes a lock, and says how many handlers waited in vain.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long wanted, done;
static volatile int stop, is_child;
static long stuck;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

// Always held by the one or the other.
static void *contend(void *unused) {
    while (!stop) {
        pthread_mutex_lock(&mutex);
        for (volatile int i = 0; i < 20000; i++) {}
        free(malloc(1000));
        pthread_mutex_unlock(&mutex);
        done++;
        usleep(10);
    }
    return unused;
}

static void before(void) {
    unsigned long seen = done;
    double end = now() + 120;
    while (done < seen + 200 && now() < end) usleep(100);
    stuck += done < seen + 200;
}

int main(void) {
    pthread_atfork(before, NULL, NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, contend, NULL);
    puts("ready");
    fflush(stdout);
    getchar();
    long bad = 0, forks = 0;
    for (long wanted = 50 * atof(getenv("SECONDS")); forks < wanted && !stuck; forks++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(120);
            for (int i = 0; i < 1000; i++) free(malloc(i * 10));
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("stuck %ld bad %ld\n", stuck, bad);
    return forks == 0;
}
