/* A program that lives near its limit of address space and handles that memory is refused. Each line of standard input takes it a step further: 20 MB left; 600 MB left; it
   takes all of these, and again all that anybody gives back; the end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile int is_over;

static void leave(unsigned long megabytes) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1)
        _exit(2);
    fclose(file);
    struct rlimit limit = {pages * sysconf(_SC_PAGESIZE) + (megabytes << 20), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
}

static void work(void) {
    unsigned long state = 1;
    for (int round = 0; round < 100000; round++)
        state = state * 6364136223846793005 + 1442695040888963407;
    for (int size = 100; size < 4000000; size *= 2) {
        char *volatile block = malloc(size + state % 2);
        if (block != NULL)
            block[0] = 1;
        free(block);
    }
}

static void *work_on(void *argument) {
    while (!is_over)
        work();
    return argument;
}

static void *eat(void *argument) {
    while (!is_over) {
        size_t bytes = 64 << 20;
        while (bytes >= 4096)
            if (mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
                bytes /= 2;
        usleep(1000);
    }
    return argument;
}

int main(void) {
    pthread_t worker, eater;
    pthread_create(&worker, NULL, work_on, NULL);
    printf("ready\n");
    fflush(stdout);
    getchar();
    leave(20);
    printf("near\n");
    fflush(stdout);
    getchar();
    leave(600);
    printf("room\n");
    fflush(stdout);
    getchar();
    pthread_create(&eater, NULL, eat, NULL);
    printf("eating\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    is_over = 1;
    pthread_join(worker, NULL);
    pthread_join(eater, NULL);
    _exit(0);
}
