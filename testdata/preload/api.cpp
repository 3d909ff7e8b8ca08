// Calls the C interface, with the library and without it.
#include <atomic>
#include <stdio.h>
#include <string.h>
#include <thread>
#include <unistd.h>
#include "procprof.h"

static std::atomic<bool> is_profiled;

__attribute__((noinline)) void labelled_work() {
    procprof::Label query("query_id", "q1");
    volatile unsigned sum = 0;
    for (unsigned round = 0; !is_profiled; round++)
        sum = sum * 31 + round;
}

static int threads() {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, status))
        sscanf(line, "Threads: %d", &count);
    fclose(status);
    return count;
}

// The reason is asked for after the call, which arguments of one function need not be.
static void tell(const char *call, int code) {
    printf("%s %d: %s\n", call, code, procprof_error());
}

int main(int, char **arguments) {
    printf("loaded %d, threads %d, port %d\n", procprof_is_loaded(), threads(), procprof_port() != 0);
    tell("dump", procprof_dump("/debug/pprof/heap", arguments[1]));
    tell("start", procprof_start("nowhere"));
    printf("start %d\n", procprof_start("127.0.0.1:0"));
    printf("threads %d, port %d\n", threads(), procprof_port() != 0);
    tell("again", procprof_start(""));
    std::thread profile([&] {
        printf("profile %d\n", procprof_dump("/debug/pprof/profile?seconds=1&frequency=250", arguments[2]));
        is_profiled = true;
    });
    labelled_work();
    profile.join();
    printf("dump %d\n", procprof_dump("/debug/pprof/heap", arguments[1]));
    tell("dump", procprof_dump("/nothing", arguments[1]));
    procprof_stop();
    // The kernel counts a thread for a moment after it was joined.
    for (int round = 0; threads() > 1 && round < 10000; round++)
        usleep(1000);
    printf("threads %d, port %d\n", threads(), procprof_port());
    return 0;
}
