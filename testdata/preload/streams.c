/* Started with its standard output and error open, it closes both, and goes on to print: the kernel refuses that, unless the numbers are another file's by then. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
    char byte;
    printf("ready\n");
    fflush(stdout);
    close(1);
    close(2);
    /* For as long as the caller keeps standard input open. */
    int accepted = 0, flags = 0;
    while (read(0, &byte, 1) == 1)
        for (int round = 0; round < 300; round++) {
            accepted += write(1, "SECRET LINE\n", 12) > 0;
            accepted += write(2, "SECRET LINE\n", 12) > 0;
            flags += lseek(1, 0, SEEK_CUR) >= 0;
            usleep(1000);
        }
    return accepted + flags > 0;
}
