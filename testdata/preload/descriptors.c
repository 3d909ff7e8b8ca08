/* A program at its limit of descriptors: 24 threads work, and while the caller keeps standard input open, one number is left, taken and given back. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile int is_over;

static void *work(void *argument) {
    unsigned long state = 1;
    while (!is_over) {
        for (int round = 0; round < 200000; round++)
            state = state * 6364136223846793005 + 1442695040888963407;
        usleep(10000);
    }
    return argument == NULL ? (void *)state : NULL;
}

static void *wait_for_end(void *argument) {
    while (getchar() != EOF)
        ;
    is_over = 1;
    return argument;
}

int main(void) {
    struct rlimit limit = {64, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    pthread_t threads[25];
    for (int index = 0; index < 24; index++)
        pthread_create(&threads[index], NULL, work, NULL);
    pthread_create(&threads[24], NULL, wait_for_end, NULL);
    int last = 0, number = 0;
    while ((number = open("/dev/null", O_RDONLY)) >= 0)
        last = number;
    close(last);
    printf("%d\n", last);
    fflush(stdout);
    int failures = 0;
    while (!is_over) {
        number = open("/dev/null", O_RDONLY);
        failures += number != last;
        close(number);
        usleep(100);
    }
    for (int index = 0; index < 25; index++)
        pthread_join(threads[index], NULL);
    return failures > 0;
}
