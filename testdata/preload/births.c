/* Threads that live for so many milliseconds of their CPU time, one after another: births WAY MILLIS [BESIDE].
   `ordered` has `seven` for the first seven tenths of it, then `three`; `mixed` has them in short turns. BESIDE such rows run at once. Without MILLIS
   it creates and joins 4,000 threads that do nothing, when a line is read, and prints the nanoseconds of CPU time for each. Ends with standard input. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long length;
static int is_mixed;

static long clock_of(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

#define BURNER(name) \
    __attribute__((noinline)) static void name(long end) { \
        while (clock_of(CLOCK_THREAD_CPUTIME_ID) < end) \
            for (volatile int rounds = 0; rounds < 500; rounds++) \
                ; \
    }

BURNER(seven)
BURNER(three)

static void *short_life(void *argument) {
    long end = length, turn = is_mixed ? 200000 : length;
    for (long begin = 0; begin < end; begin += turn) {
        seven(begin + turn * 7 / 10);
        three(begin + turn);
    }
    return argument;
}

static void *row(void *argument) {
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_life, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return argument;
}

static void *nothing(void *argument) {
    return argument;
}

static void create_and_join(void) {
    const int count = 4000;
    long before = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int index = 0; index < count; index++) {
        pthread_t thread;
        pthread_create(&thread, NULL, nothing, NULL);
        pthread_join(thread, NULL);
    }
    printf("%ld\n", (clock_of(CLOCK_PROCESS_CPUTIME_ID) - before) / count);
    fflush(stdout);
}

int main(int count, char **words) {
    puts("ready");
    fflush(stdout);
    if (count < 3) {
        while (getchar() != EOF)
            create_and_join();
        _exit(0);
    }
    is_mixed = strcmp(words[1], "mixed") == 0;
    length = atof(words[2]) * 1e6;
    for (int index = count > 3 ? atoi(words[3]) : 1; index > 0; index--) {
        pthread_t thread;
        pthread_create(&thread, NULL, row, NULL);
    }
    while (getchar() != EOF)
        ;
    _exit(0);
}
