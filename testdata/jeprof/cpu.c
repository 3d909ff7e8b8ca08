// Spends CPU time in a function with an inlined one and in another, and writes a profile: cpu OUT
// Build: cc -g -O2 cpu.c -lprofiler; run with CPUPROFILE_FREQUENCY=400
#include <stdio.h>
#include <stdlib.h>
#include <gperftools/profiler.h>

static unsigned mix(unsigned value) {
    value ^= value << 13;
    value ^= value >> 17;
    return value ^ value << 5;
}

__attribute__((noinline)) unsigned spin(unsigned rounds) {
    unsigned sum = 1;
    for (unsigned round = 0; round < rounds; round++)
        sum += mix(sum + round);
    return sum;
}

__attribute__((noinline)) unsigned divide(unsigned rounds) {
    unsigned sum = 7;
    for (unsigned round = 1; round < rounds; round++)
        sum += sum / round;
    return sum;
}

int main(int count, char **words) {
    ProfilerStart(words[1]);
    unsigned sum = 0;
    for (int turn = 0; turn < 40; turn++) {
        sum += spin(4000000 + sum % 7);
        sum += divide(1000000 + sum % 5);
    }
    ProfilerStop();
    printf("%u\n", sum);
    return count == 0;
}
