// Runs code that it has made, spread over many addresses, for half of a CPU. It prints the address of the first of the
// functions, which are 64 bytes apart; a perf map of them is for others to write.
//
// usage: generated FUNCTIONS
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int main(int count, char **arguments) {
    size_t functions = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    unsigned char *code =
        mmap(NULL, functions * 64, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 1;
#ifdef __x86_64__
    // mov ecx, 4096; dec ecx; jnz the instruction before; ret
    static const unsigned char function[] = {0xb9, 0x00, 0x10, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
#else
    // mov w0, 4096; subs w0, w0, 1; b.ne the instruction before; ret
    static const uint32_t function[] = {0x52820000, 0x71000400, 0x54ffffe1, 0xd65f03c0};
#endif
    for (size_t number = 0; number < functions; number++)
        memcpy(code + number * 64, function, sizeof function);
    __builtin___clear_cache((char *)code, (char *)code + functions * 64);
    printf("%lx\n", (unsigned long)code);
    fflush(stdout);
    for (uint32_t random = 1;;) {
        for (clock_t begun = clock(); clock() - begun < CLOCKS_PER_SEC / 200;)
            for (int calls = 0; calls < 1000; calls++) {
                random = random * 1664525u + 1013904223u;
                ((void (*)(void))(code + (size_t)(random >> 8) % functions * 64))();
            }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}
