/* One thread that allocates until standard input ends, and prints now and then whether the C library takes it for the only one. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* glibc 2.32 and later. */
extern char __libc_single_threaded __attribute__((weak));

int main(void) {
    struct pollfd input = {0, POLLIN, 0};
    for (int round = 0; poll(&input, 1, 1) <= 0; round++) {
        char *volatile block = malloc(100000);
        block[0] = 1;
        free(block);
        if (round % 100 == 0) {
            puts(&__libc_single_threaded == NULL || __libc_single_threaded ? "alone" : "not alone");
            fflush(stdout);
        }
    }
    return 0;
}
