/* A thread that was cancelled allocates until a line is read, and for a while more, without a place where it may be cancelled: it must get to its end.
   Prints what became of it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int is_cancelled, is_enough, has_lived;
static void *volatile block;

static void *allocate(void *argument) {
    while (!is_cancelled)
        ;
    for (int rounds = 0; rounds < 20000; rounds += is_enough) {
        block = malloc(100000);
        free(block);
    }
    has_lived = 1;
    pthread_testcancel();
    return argument;
}

int main(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, allocate, NULL);
    pthread_cancel(thread);
    is_cancelled = 1;
    puts("ready");
    fflush(stdout);
    /* Without an allocation. */
    char byte;
    if (read(0, &byte, 1) != 1)
        return 1;
    is_enough = 1;
    pthread_join(thread, &result);
    puts(has_lived && result == PTHREAD_CANCELED ? "lived" : "cut off");
    fflush(stdout);
    while (read(0, &byte, 1) == 1)
        ;
    return 0;
}
