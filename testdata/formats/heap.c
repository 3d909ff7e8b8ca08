// Allocates by two ways: what Massif and DHAT record of it is read in the tests.
#include <stdlib.h>

__attribute__((noinline)) static char *fill(size_t bytes) {
    char *block = malloc(bytes);
    block[0] = 1;
    return block;
}

__attribute__((noinline)) static char *twice(size_t bytes) {
    free(fill(bytes));
    return fill(bytes);
}

int main(void) {
    char *kept = fill(4000);
    char *other = twice(2000);
    free(other);
    free(kept);
    return 0;
}
