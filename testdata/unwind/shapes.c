/* Functions of many shapes, run between two breakpoint instructions so that a tracer can step through them. */
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

extern long asm_shapes(long (*call)(long), long argument);

static volatile long sink;

NOINLINE static long leaf(long x) { return x * 3 + 1; }

NOINLINE static long red_zone(long x) {
    volatile long words[12];
    for (int i = 0; i < 12; i++) words[i] = x + i;
    return words[x & 7];
}

NOINLINE static long many_registers(long a, long b, long c, long d, long e, long f, long g, long h) {
    long sum = 0;
    for (int i = 0; i < 2; i++) sum += leaf(a + i) * b + leaf(c) * d + leaf(e) * f + leaf(g) * h;
    return sum;
}

NOINLINE static long big_frame(long x) {
    volatile char bytes[200000];
    bytes[x] = 1;
    return leaf(bytes[x]) + (long)bytes[x];
}

NOINLINE static long with_alloca(long n) {
    char *bytes = alloca(n);
    memset(bytes, 1, n);
    return leaf(bytes[n - 1]) + bytes[0];
}

NOINLINE static long aligned(long x) {
    volatile char bytes[64] __attribute__((aligned(64)));
    bytes[0] = (char)x;
    return leaf((long)&bytes[0]) & 1;
}

NOINLINE static long early_return(long x) {
    if (x < 3) return x;
    return many_registers(x, 2, 3, 4, 5, 6, 7, 8) + leaf(x);
}

NOINLINE static long recursive(long n) { return n == 0 ? red_zone(1) : recursive(n - 1) + leaf(n); }

NOINLINE static long tail(long n) { return recursive(n & 3); }

NOINLINE static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

NOINLINE static long sorted(void) {
    int numbers[] = {5, 3, 9, 1};
    qsort(numbers, 4, sizeof numbers[0], compare);
    return numbers[0];
}

NOINLINE __attribute__((noreturn)) static void never_returns(int value) {
    sink += leaf(value) + recursive(value);
    __asm__ volatile("int3");
    _exit(0);
}

NOINLINE static void on_signal(int signal) { sink += recursive(signal & 3); }

NOINLINE static long switched(long x) {
    switch (x & 7) {
    case 0: return leaf(1);
    case 1: return red_zone(2);
    case 2: return aligned(3);
    case 3: return tail(4);
    case 4: return early_return(5);
    default: return x;
    }
}

NOINLINE static long with_libc(void) {
    char text[64], *copy;
    struct timespec now;
    snprintf(text, sizeof text, "%d %s %.2f", 42, "text", 1.5);
    copy = strdup(text);
    long length = (long)strlen(copy) + atoi(copy);
    free(copy);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return length + (now.tv_nsec & 0);
}

NOINLINE static long all(void) {
    long sum = leaf(1) + red_zone(2) + many_registers(1, 2, 3, 4, 5, 6, 7, 8) + big_frame(4) + with_alloca(100) + aligned(5);
    sum += early_return(2) + early_return(4) + recursive(3) + tail(6) + sorted() + with_libc();
    for (int i = 0; i < 6; i++) sum += switched(i);
    sum += asm_shapes(leaf, 5);
    raise(SIGUSR1);
    raise(SIGUSR2);
    return sum;
}

int main(void) {
    static char other_stack[65536];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    __asm__ volatile("int3");
    sink = all();
    never_returns(2);
}
