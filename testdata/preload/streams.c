/* Started with its standard output and error open, it closes both, and goes on to print until its input ends: the kernel refuses that, unless the numbers are another file's by then. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    printf("ready\n");
    fflush(stdout);
    close(1);
    close(2);
    int accepted = 0, flags = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, 1) <= 0) {
        accepted += write(1, "SECRET LINE\n", 12) > 0;
        accepted += write(2, "SECRET LINE\n", 12) > 0;
        flags += lseek(1, 0, SEEK_CUR) >= 0;
    }
    return accepted + flags > 0;
}
