// Spends CPU time in hot_70 and hot_30, 70 to 30, in threads that begin again and again, and keeps 8 MB, until its input ends.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <atomic>
#include <thread>

static std::atomic<bool> is_over;

__attribute__((noinline)) void hot_70(volatile unsigned *sum) {
    for (int round = 0; round < 70000; round++)
        *sum = *sum * 31 + round;
}

__attribute__((noinline)) void hot_30(volatile unsigned *sum) {
    for (int round = 0; round < 30000; round++)
        *sum = *sum * 31 + round;
}

static void worker() {
    volatile unsigned sum = 0;
    for (int round = 0; round < 2000 && !is_over; round++) {
        hot_70(&sum);
        hot_30(&sum);
    }
}

__attribute__((noinline)) char *keep_eight_megabytes() {
    char *kept = new char[8 << 20];
    memset(kept, 1, 8 << 20);
    return kept;
}

int main() {
    char *volatile kept = keep_eight_megabytes();
    printf("ready %d\n", kept[0]);
    fflush(stdout);
    pollfd input = {0, POLLIN, 0};
    while (!is_over) {
        std::thread thread(worker);
        is_over = poll(&input, 1, 10) != 0;
        thread.join();
    }
}
