/* A program whose time goes to `hot` and `cold`, seven to three, with some system calls; N rounds. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static volatile unsigned sink;

static inline __attribute__((always_inline)) void inner(int n) {
    for (int i = 0; i < n; i++)
        sink += i * i;
}

__attribute__((noinline)) void hot(void) {
    inner(700000);
    sink++;
}

__attribute__((noinline)) void cold(void) {
    inner(300000);
    sink++;
}

int main(int argc, char **argv) {
    char buffer[4096];
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 10); i++) {
        hot();
        cold();
        int zero = open("/dev/zero", O_RDONLY);
        for (int j = 0; j < 200; j++)
            if (read(zero, buffer, sizeof buffer) < 0)
                return 1;
        close(zero);
    }
}
