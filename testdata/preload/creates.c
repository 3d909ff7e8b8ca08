/* Threads of all kinds, made and ended until a line is read: by both calls, on the smallest stack, detached, with all signals blocked, ended by a return, by
   pthread_exit or by cancellation, and some that cannot be made. Prints "ready", and at its end what was wrong or "right". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define IS(what) (void)((what) ? 0 : (wrong = #what))

static const char *volatile wrong;
static sem_t detached_have_ended;
static pthread_key_t key;
static volatile int destroyed;

static void destroy(void *value) {
    IS(errno == 77);
    destroyed += value == &key;
}

static void burn(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    long end = time.tv_sec * 1000000000L + time.tv_nsec + 1000000;
    while (time.tv_sec * 1000000000L + time.tv_nsec < end)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
}

static void *returns(void *argument) {
    IS(errno == 0);
    burn();
    errno = 77;
    pthread_setspecific(key, &key);
    return argument;
}

static void *exits(void *argument) {
    burn();
    pthread_exit(argument);
}

static void *waits(void *argument) {
    for (;;)
        pause();
    return argument;
}

static void *is_detached(void *argument) {
    burn();
    sem_post(&detached_have_ended);
    return argument;
}

static int returns_a_number(void *argument) {
    burn();
    return *(int *)argument;
}

static void round_of_threads(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    void *result = NULL;
    IS(pthread_create(&thread, NULL, returns, &key) == 0 && pthread_join(thread, &result) == 0 && result == &key);
    IS(pthread_create(&thread, NULL, exits, &key) == 0 && pthread_join(thread, &result) == 0 && result == &key);
    IS(pthread_create(&thread, NULL, waits, NULL) == 0 && pthread_cancel(thread) == 0);
    IS(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    IS(pthread_create(&thread, &attributes, exits, &key) == 0 && pthread_join(thread, &result) == 0 && result == &key);
    pthread_attr_setstacksize(&attributes, (size_t)1 << 50);
    errno = 55;
    int code = pthread_create(&thread, &attributes, exits, NULL);
    IS((code == EAGAIN || code == ENOMEM) && errno != 0);
    pthread_attr_destroy(&attributes);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    IS(pthread_create(&thread, &attributes, is_detached, NULL) == 0 && sem_wait(&detached_have_ended) == 0);
    pthread_attr_destroy(&attributes);

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    IS(pthread_create(&thread, NULL, exits, NULL) == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    IS(pthread_join(thread, NULL) == 0);

    thrd_t other;
    int number = -1234567, returned = 0;
    IS(thrd_create(&other, returns_a_number, &number) == thrd_success && thrd_join(other, &returned) == thrd_success);
    IS(returned == number);
}

int main(void) {
    pthread_key_create(&key, destroy);
    sem_init(&detached_have_ended, 0, 0);
    puts("ready");
    fflush(stdout);
    fcntl(0, F_SETFL, O_NONBLOCK);
    char byte;
    int rounds = 0;
    do {
        round_of_threads();
        rounds++;
    } while (read(0, &byte, 1) < 0 && wrong == NULL);
    IS(destroyed == rounds);
    puts(wrong ? wrong : "right");
    fflush(stdout);
    return 0;
}
