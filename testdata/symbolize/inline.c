// Inlined calls, an assembly function without a size, and a wait for the end of input.
int printf(const char *, ...), fflush(void *), getchar(void);

static volatile int sink;

__attribute__((always_inline)) static inline int innermost(int x) {
    sink += x;
    return sink * 3;
}

__attribute__((always_inline)) static inline int middle(int x) {
    int y = innermost(x + 1);
    sink = y;
    return y + innermost(y);
}

__attribute__((noinline)) int outer(int x) {
    int y = middle(x);
    sink -= y;
    return y;
}

__attribute__((noinline)) static int local_one(int x) {
    for (int i = 0; i < x; i++) {
        sink ^= outer(i);
    }
    return sink;
}

__asm__(
    ".text\n"
    ".globl without_size\n"
    "without_size:\n"
    "nop\n"
    "nop\n"
    "ret\n");

int main(void) {
    printf("%d\n", local_one(3));
    fflush(0);
    getchar();
    return 0;
}
