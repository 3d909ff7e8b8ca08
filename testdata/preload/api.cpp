// Calls the C interface, with the library and without it.
#include <stdio.h>
#include <string.h>
#include <thread>
#include "procprof.h"

__attribute__((noinline)) void labelled_work() {
    procprof::Label query("query_id", "q1");
    volatile unsigned sum = 0;
    for (unsigned round = 0; round < 300000000; round++)
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
    std::thread profile([&] { printf("profile %d\n", procprof_dump("/debug/pprof/profile?seconds=1&frequency=250", arguments[2])); });
    labelled_work();
    profile.join();
    printf("dump %d\n", procprof_dump("/debug/pprof/heap", arguments[1]));
    tell("dump", procprof_dump("/nothing", arguments[1]));
    procprof_stop();
    printf("threads %d, port %d\n", threads(), procprof_port());
    return 0;
}
