/* 600 threads that sleep until standard input ends. Prints how many mappings the process has each time a line is read. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *wait_for_ever(void *argument) {
    for (;;)
        pause();
    return argument;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (int index = 0; index < 600; index++) {
        pthread_t thread;
        pthread_create(&thread, &attributes, wait_for_ever, NULL);
    }
    do {
        FILE *maps = fopen("/proc/self/maps", "r");
        int lines = 0;
        for (int byte; (byte = fgetc(maps)) != EOF;)
            lines += byte == '\n';
        fclose(maps);
        printf("%d\n", lines);
        fflush(stdout);
    } while (getchar() != EOF);
    _exit(0);
}
