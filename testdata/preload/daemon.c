/* Becomes a daemon by the book: two forks, a session of its own, all descriptors closed, others opened under their numbers. Its first process prints
 * its id and ends; the daemon allocates now and then until the file argv[1] is gone. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    (void)count;
    printf("ready\n");
    fflush(stdout);
    getchar();
    if (fork())
        _exit(0);
    setsid();
    if (fork())
        _exit(0);
    for (int descriptor = 0; descriptor < 2048; descriptor++)
        close(descriptor);
    for (int descriptor = 0; descriptor < 3; descriptor++)
        open("/dev/null", O_RDWR);
    while (access(arguments[1], F_OK) == 0) {
        void *volatile block = malloc(100000);
        free(block);
        usleep(20 * 1000);
    }
    return 0;
}
