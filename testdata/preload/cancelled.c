/* A thread that was cancelled allocates for as long as there is no file `WORDS[1]`, and 2 s more, without a place where it may be cancelled: it must get to its end.
   Prints what became of it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *file;
static volatile int is_cancelled, has_lived;
static void *volatile block;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *allocate(void *argument) {
    while (!is_cancelled)
        ;
    double end = now() + 60;
    for (int is_there = 0; now() < end;) {
        block = malloc(100000);
        free(block);
        if (!is_there && access(file, F_OK) == 0) {
            is_there = 1;
            end = now() + 2;
        }
    }
    has_lived = 1;
    pthread_testcancel();
    return argument;
}

int main(int count, char **words) {
    pthread_t thread;
    void *result;
    file = words[count - 1];
    pthread_create(&thread, NULL, allocate, NULL);
    pthread_cancel(thread);
    is_cancelled = 1;
    puts("ready");
    fflush(stdout);
    pthread_join(thread, &result);
    puts(has_lived && result == PTHREAD_CANCELED ? "lived" : "cut off");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
