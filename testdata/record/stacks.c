// Threads whose stacks are hard to follow: stacks KIND SECONDS
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))

static double seconds;
static volatile unsigned long sink;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// Runs for as long as the program shall.
KEPT void spin(void) {
    unsigned long value = 1;
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 20000; i++) value = value * 6364136223846793005ul + 1;
    sink = value;
}

// A buffer between two frames of whose pages nothing touches one.
KEPT void untouched(void) {
    char buffer[12288];
    buffer[0] = 1;
    __asm__ volatile("" ::"r"(buffer) : "memory");
    spin();
    __asm__ volatile("" ::"r"(buffer) : "memory");
}

// The same in the function that runs.
KEPT void untouched_leaf(void) {
    char buffer[12288];
    buffer[0] = 1;
    __asm__ volatile("" ::"r"(buffer) : "memory");
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 2000000; i++) sink++;
    __asm__ volatile("" ::"r"(buffer) : "memory");
}

// Frames larger than any copy.
KEPT void large(int depth) {
    char buffer[256 << 10];
    memset(buffer, depth, sizeof buffer);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    if (depth) large(depth - 1);
    else spin();
    sink += buffer[depth];
}

// A frame larger than any copy, under which short calls come and go: `first` for `odd`, `second` for `even`.
KEPT void first(void) {
    for (int i = 0; i < 3000; i++) sink++;
}
KEPT void second(void) {
    for (int i = 0; i < 3000; i++) sink += 2;
}
KEPT void shallow(int number) {
    char buffer[96 << 10];
    memset(buffer, number, sizeof buffer);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    if (number == 1) first();
    else second();
    sink += buffer[number];
}
KEPT void even(void) { shallow(2); sink++; }
KEPT void odd(void) { shallow(1); sink++; }
KEPT void brief(void) {
    for (double end = now() + seconds; now() < end;) {
        even();
        odd();
    }
}

// Code whose tables state more than two registers: the address of the frame is in the red zone, in a register, and in
// one that a function called meanwhile has saved.
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".type red_zone,@function\nred_zone:\n.cfi_startproc\n"
    " lea (%rsp),%rax\n sub $0x88,%rsp\n.cfi_adjust_cfa_offset 0x88\n mov %rax,-8(%rsp)\n"
    ".cfi_escape 0x0f,0x05,0x77,0x78,0x06,0x23,0x08\n" // [rsp - 8] + 8
    "1: dec %rdi\n jnz 1b\n mov -8(%rsp),%rsp\n.cfi_def_cfa 7,8\n ret\n.cfi_endproc\n.size red_zone,.-red_zone\n"
    // The same, copied from a word above.
    ".type copied,@function\ncopied:\n.cfi_startproc\n"
    " lea (%rsp),%rax\n sub $0x88,%rsp\n.cfi_adjust_cfa_offset 0x88\n mov %rax,64(%rsp)\n mov %rax,-8(%rsp)\n"
    ".cfi_escape 0x0f,0x05,0x77,0x78,0x06,0x23,0x08\n"
    "1: dec %rdi\n jnz 1b\n mov -8(%rsp),%rsp\n.cfi_def_cfa 7,8\n ret\n.cfi_endproc\n.size copied,.-copied\n"
    ".type by_rbx,@function\nby_rbx:\n.cfi_startproc\n"
    " push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset 3,-16\n mov %rsp,%rbx\n.cfi_def_cfa 3,16\n"
    " sub $0x400,%rsp\n and $-64,%rsp\n call save_rbx\n mov %rbx,%rsp\n.cfi_def_cfa 7,16\n"
    " pop %rbx\n.cfi_restore 3\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n.size by_rbx,.-by_rbx\n"
    ".type save_rbx,@function\nsave_rbx:\n.cfi_startproc\n"
    " push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset 3,-16\n xor %ebx,%ebx\n"
    "1: dec %rdi\n jnz 1b\n pop %rbx\n.cfi_restore 3\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n"
    ".size save_rbx,.-save_rbx\n"
    // The frame of r9 + 8, kept at [rbx], which no compact rule has.
    ".type by_memory,@function\nby_memory:\n.cfi_startproc\n"
    " push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset 3,-16\n lea 8(%rsp),%r9\n sub $0x100,%rsp\n mov %rsp,%rbx\n"
    " mov %r9,16(%rbx)\n sub $0x100,%rsp\n.cfi_escape 0x0f,0x05,0x73,0x10,0x06,0x23,0x08\n" // [rbx + 16] + 8
    "1: dec %rdi\n jnz 1b\n mov 16(%rbx),%r9\n lea -8(%r9),%rsp\n.cfi_def_cfa 7,16\n"
    " pop %rbx\n.cfi_restore 3\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n.size by_memory,.-by_memory\n"
    // Without tables: a frame pointer that points to zeros, and to an address behind which is no call.
    ".type to_zeros,@function\nto_zeros:\n"
    " push %rbp\n sub $64,%rsp\n movq $0,16(%rsp)\n movq $0,24(%rsp)\n lea 16(%rsp),%rbp\n"
    "1: dec %rdi\n jnz 1b\n add $64,%rsp\n pop %rbp\n ret\n.size to_zeros,.-to_zeros\n"
    ".type to_pointer,@function\nto_pointer:\n"
    " push %rbp\n sub $64,%rsp\n lea to_zeros(%rip),%rax\n movq $0,16(%rsp)\n mov %rax,24(%rsp)\n lea 16(%rsp),%rbp\n"
    "1: dec %rdi\n jnz 1b\n add $64,%rsp\n pop %rbp\n ret\n.size to_pointer,.-to_pointer\n"
    // What the handler of a signal returns to, without a table, as in musl.
    ".type own_restore,@function\nown_restore:\n mov $15,%rax\n syscall\n.size own_restore,.-own_restore\n"
    // A page that is moved to memory without a file.
    ".section .text.moved,\"ax\",@progbits\n.p2align 12\nmoved_begin:\n"
    ".type moved_leaf,@function\nmoved_leaf:\n.cfi_startproc\n push %rbx\n.cfi_adjust_cfa_offset 8\n"
    ".cfi_offset 3,-16\n xor %ebx,%ebx\n"
    "1: dec %rdi\n jnz 1b\n pop %rbx\n.cfi_restore 3\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n"
    ".size moved_leaf,.-moved_leaf\n"
    ".type moved,@function\nmoved:\n.cfi_startproc\n sub $24,%rsp\n.cfi_adjust_cfa_offset 24\n call moved_leaf\n"
    " add $24,%rsp\n.cfi_adjust_cfa_offset -24\n ret\n.cfi_endproc\n.size moved,.-moved\n"
    ".p2align 12\nmoved_end:\n.text\n");
void own_restore(void), moved(long);
extern char moved_begin[], moved_end[];
void red_zone(long), copied(long), by_rbx(long), by_memory(long), to_zeros(long), to_pointer(long);

// Code made at run time, without a table and without a frame pointer: sub rsp, 8; call rcx; add rsp, 8; ret
static void generated(void (*function)(void)) {
    static const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3};
    void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    void (*call)(long, long, long, void (*)(void)) = memory;
    call(0, 0, 0, function);
}
KEPT void hand_written(void (*function)(long)) {
    for (double end = now() + seconds; now() < end;) {
        function(1000000);
        sink++;
    }
}

// Moves code to memory without a file, as PHP and Node.js do for huge pages, and runs it.
KEPT void hand_moved(void) {
    size_t size = moved_end - moved_begin;
    void *copy = malloc(size);
    memcpy(copy, moved_begin, size);
    mmap(moved_begin, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memcpy(moved_begin, copy, size);
    mprotect(moved_begin, size, PROT_READ | PROT_EXEC);
    free(copy);
    hand_written(moved);
    sink++;
}

// A handler that runs on, of a signal that the thread sends itself.
KEPT void on_signal(int number) {
    spin();
    sink += number;
}
KEPT void signalled(void) {
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {on_signal, 0x04000000, own_restore, 0}; // SA_RESTORER
    syscall(SYS_rt_sigaction, SIGUSR1, &action, 0, 8);
    long result = SYS_tgkill, pid = getpid(), tid = syscall(SYS_gettid);
    __asm__ volatile("syscall" : "+a"(result) : "D"(pid), "S"(tid), "d"(SIGUSR1) : "rcx", "r11", "memory");
    sink += result;
}

// Uses the stack below the caller's.
KEPT void overwrite(void) {
    char buffer[1024];
    memset(buffer, 0x55, sizeof buffer);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    sink += buffer[7];
}
KEPT void overwritten(void) {
    for (double end = now() + seconds; now() < end;) {
        copied(5000);
        overwrite();
    }
}
#endif

// A child that waits: meanwhile the parent waits in `vfork`.
static void child(void) {
    struct timespec time = {0, 100000000};
    nanosleep(&time, 0);
    _exit(0);
}
KEPT void spawn(void) {
    pid_t pid = vfork();
    if (!pid) child();
    int status;
    waitpid(pid, &status, 0);
    sink++;
}

KEPT void work(const char *kind) {
    if (!strcmp(kind, "untouched")) untouched();
    if (!strcmp(kind, "untouched-leaf")) untouched_leaf();
    if (!strcmp(kind, "large")) large(3);
    if (!strcmp(kind, "brief")) brief();
#if defined(__x86_64__)
    if (!strcmp(kind, "red-zone")) hand_written(red_zone);
    if (!strcmp(kind, "overwritten")) overwritten();
    if (!strcmp(kind, "by-rbx")) hand_written(by_rbx);
    if (!strcmp(kind, "by-memory")) hand_written(by_memory);
    if (!strcmp(kind, "to-zeros")) hand_written(to_zeros);
    if (!strcmp(kind, "to-pointer")) hand_written(to_pointer);
    if (!strcmp(kind, "generated")) generated(spin);
    if (!strcmp(kind, "signal")) signalled();
    if (!strcmp(kind, "moved")) hand_moved();
#endif
    if (!strcmp(kind, "vfork"))
        for (double end = now() + seconds; now() < end;) spawn();
    sink++;
}

static void *run(void *kind) {
    work(kind);
    return 0;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    seconds = atof(words[2]);
    pthread_t thread;
    pthread_create(&thread, 0, run, words[1]);
    pthread_join(thread, 0);
    return 0;
}
