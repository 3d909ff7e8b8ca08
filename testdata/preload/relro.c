// Takes a lock and changes a variable beside the table by which it calls the C library, for as long as it has input.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
volatile int counter = 1;

static void *count(void *unused) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
        usleep(1000);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, count, NULL);
    puts("ready");
    fflush(stdout);
    getchar();
    pthread_mutex_lock(&mutex);
    int before = counter;
    pthread_mutex_unlock(&mutex);
    int is_counting = 0;
    for (int round = 0; round < 300000 && !is_counting; round++) {
        usleep(1000);
        pthread_mutex_lock(&mutex);
        is_counting = counter > before;
        pthread_mutex_unlock(&mutex);
    }
    puts(is_counting ? "counts" : "stands still");
    return 0;
}
