/* Waits of known lengths, each by functions of its own: wait SECONDS. For so long, each thread repeats its wait:
   "sleeper" sleeps 5 ms, "reader" reads from a pipe to which "writer" writes each 20 ms, "locker" waits for a mutex that
   "holder" holds for 10 ms at a time, "idle" waits for a condition until the end. Prints, a line for each: the name of
   the function that waits, its number of waits, their time on the clock in nanoseconds, and how much of that is of waits
   in which the thread was preempted, too. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct waits {
    const char *name;
    long count;
    double time, preempted;
};

static double end;
static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, done_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static int is_done;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static long preemptions(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static void pause_for(long nanos) {
    struct timespec time = {nanos / 1000000000, nanos % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

__attribute__((noinline)) void wait_sleeping(void) { pause_for(5000000); __asm__ volatile(""); }
__attribute__((noinline)) void wait_reading(void) {
    char byte;
    if (read(ends[0], &byte, 1) < 0) perror("read");
    __asm__ volatile("");
}
__attribute__((noinline)) void wait_locking(void) { pthread_mutex_lock(&mutex); __asm__ volatile(""); }
__attribute__((noinline)) void wait_idle(void) {
    pthread_mutex_lock(&done_mutex);
    while (!is_done) pthread_cond_wait(&done, &done_mutex);
    pthread_mutex_unlock(&done_mutex);
}

#define TIMED(waits, call) do { \
    long before = preemptions(); \
    double begin = now(); \
    call; \
    double time = now() - begin; \
    (waits)->time += time; \
    if (preemptions() != before) (waits)->preempted += time; \
    (waits)->count++; \
} while (0)

static void *sleeper(void *waits) {
    while (now() < end) TIMED((struct waits *)waits, wait_sleeping());
    return NULL;
}
static void *reader(void *waits) {
    while (now() < end) TIMED((struct waits *)waits, wait_reading());
    return NULL;
}
static void *writer(void *none) {
    while (now() < end + 5e7) {
        pause_for(20000000);
        if (write(ends[1], "x", 1) < 0) perror("write");
    }
    /* A reader that was preempted until now would wait for ever. */
    close(ends[1]);
    return none;
}
static void *locker(void *waits) {
    while (now() < end) {
        TIMED((struct waits *)waits, wait_locking());
        pthread_mutex_unlock(&mutex);
        pause_for(1000000);
    }
    return NULL;
}
static void *holder(void *none) {
    while (now() < end) {
        pthread_mutex_lock(&mutex);
        pause_for(10000000);
        pthread_mutex_unlock(&mutex);
        pause_for(2000000);
    }
    return none;
}
static void *idle(void *waits) {
    TIMED((struct waits *)waits, wait_idle());
    return NULL;
}

struct thread {
    const char *name;
    void *(*run)(void *);
    void *argument;
};

/* Has its name before it waits. */
static void *begin(void *thread) {
    struct thread *self = thread;
    pthread_setname_np(pthread_self(), self->name);
    return self->run(self->argument);
}

int main(int count, char **words) {
    static struct waits waits[] = {{"wait_sleeping"}, {"wait_reading"}, {"wait_locking"}, {"wait_idle"}};
    struct thread threads[] = {
        {"sleeper", sleeper, &waits[0]}, {"reader", reader, &waits[1]}, {"writer", writer, NULL},
        {"locker", locker, &waits[2]}, {"holder", holder, NULL}, {"idle", idle, &waits[3]},
    };
    end = now() + (count > 1 ? atof(words[1]) : 1) * 1e9;
    if (pipe(ends) < 0) { perror("pipe"); return 1; }
    pthread_t ids[6];
    for (int i = 0; i < 6; i++) pthread_create(&ids[i], NULL, begin, &threads[i]);
    for (int i = 0; i < 5; i++) pthread_join(ids[i], NULL);
    pthread_mutex_lock(&done_mutex);
    is_done = 1;
    pthread_cond_signal(&done);
    pthread_mutex_unlock(&done_mutex);
    pthread_join(ids[5], NULL);
    for (int i = 0; i < 4; i++) {
        printf("%s %ld %.0f %.0f\n", waits[i].name, waits[i].count, waits[i].time, waits[i].preempted);
    }
    return 0;
}
