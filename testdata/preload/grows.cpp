// Keeps 8 MB, and 4 MB more for each line it reads, until its input ends.
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) char *keep_eight_megabytes() {
    char *kept = new char[8 << 20];
    memset(kept, 1, 8 << 20);
    return kept;
}

__attribute__((noinline)) char *keep_four_megabytes() {
    char *kept = new char[4 << 20];
    memset(kept, 1, 4 << 20);
    return kept;
}

int main() {
    char *volatile kept = keep_eight_megabytes();
    printf("ready %d\n", kept[0]);
    fflush(stdout);
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        kept = keep_four_megabytes();
        printf("grown %d\n", kept[0]);
        fflush(stdout);
    }
}
