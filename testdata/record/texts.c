// A process that lets /proc show whatever it likes of itself, by PR_SET_MM_MAP, which takes no privilege. It uses half of
// a CPU, and takes no notice of its arguments.
//
// TEXTS=cmdline|environ   the text to be shown anew; none without it
// TEXTS_MIB=N             its size, all of it zeros
#define _GNU_SOURCE
#include <linux/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

// The field of /proc/self/stat with that number, counted from 1.
static uint64_t field(int wanted) {
    char text[4096];
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file || !fgets(text, sizeof text, file))
        exit(1);
    fclose(file);
    char *at = strrchr(text, ')') + 2;
    for (int number = 3; number < wanted; number++)
        at = strchr(at, ' ') + 1;
    return strtoull(at, NULL, 10);
}

static void show(const char *text, size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct prctl_mm_map map = {
        .start_code = field(26), .end_code = field(27), .start_stack = field(28), .start_data = field(45),
        .end_data = field(46), .start_brk = field(47), .brk = (uint64_t)sbrk(0), .arg_start = field(48),
        .arg_end = field(49), .env_start = field(50), .env_end = field(51), .exe_fd = -1,
    };
    uint64_t start = (uint64_t)memory;
    if (strcmp(text, "cmdline") == 0)
        map.arg_start = start, map.arg_end = start + bytes;
    else
        map.env_start = start, map.env_end = start + bytes;
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) != 0) {
        perror("PR_SET_MM_MAP");
        exit(1);
    }
}

int main(void) {
    const char *text = getenv("TEXTS");
    if (text)
        show(text, strtoull(getenv("TEXTS_MIB"), NULL, 10) << 20);
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (clock_t begun = clock(); clock() - begun < CLOCKS_PER_SEC / 200;)
            ;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}
