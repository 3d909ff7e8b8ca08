/* Preloaded into a test: ends the process when a function is entered inside its SIGPROF handler that a handler must not use.
 * GUARD_BREACH=NAME makes the guard itself call that function there, so that the test can be seen to fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef void action(int, siginfo_t *, void *);

static __thread int inside __attribute__((tls_model("initial-exec")));
static action *guarded;
static const char *breach;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long direct(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

static void check(const char *name) {
    if (!inside) return;
    inside = 0;
    char told[128] = "entered inside the handler: ";
    strncat(told, name, sizeof told - strlen(told) - 2);
    strcat(told, "\n");
    /* The program's standard error, which a thread with descriptors of its own has under no number. */
    long file = direct(SYS_openat, AT_FDCWD, (long)"/proc/self/fd/2", O_WRONLY | O_APPEND, 0, 0, 0);
    direct(SYS_write, file, (long)told, strlen(told), 0, 0, 0);
    direct(SYS_exit_group, 99, 0, 0, 0, 0, 0);
}

void *malloc(size_t size) { check("malloc"); return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { check("calloc"); return __libc_calloc(count, size); }
void *realloc(void *memory, size_t size) { check("realloc"); return __libc_realloc(memory, size); }
void free(void *memory) { check("free"); __libc_free(memory); }
void *memalign(size_t alignment, size_t size) { check("memalign"); return __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { check("aligned_alloc"); return __libc_memalign(alignment, size); }
int posix_memalign(void **place, size_t alignment, size_t size) {
    check("posix_memalign");
    *place = __libc_memalign(alignment, size);
    return *place ? 0 : ENOMEM;
}

#define REAL(name) ({ static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); real; })
#define GUARD(result, name, parameters, arguments) result name parameters { check(#name); return REAL(name) arguments; }

GUARD(int, pthread_mutex_lock, (pthread_mutex_t *mutex), (mutex))
GUARD(int, pthread_mutex_trylock, (pthread_mutex_t *mutex), (mutex))
GUARD(int, pthread_rwlock_rdlock, (pthread_rwlock_t *lock), (lock))
GUARD(int, pthread_rwlock_wrlock, (pthread_rwlock_t *lock), (lock))
GUARD(int, pthread_cond_signal, (pthread_cond_t *condition), (condition))
GUARD(void *, pthread_getspecific, (pthread_key_t key), (key))
GUARD(int, dl_iterate_phdr, (int (*each)(struct dl_phdr_info *, size_t, void *), void *data), (each, data))
GUARD(ssize_t, write, (int file, const void *bytes, size_t count), (file, bytes, count))
GUARD(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
GUARD(ssize_t, read, (int file, void *bytes, size_t count), (file, bytes, count))

static int nothing(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size, (void)data;
    return 1;
}

static void breach_once(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    if (!breach) return;
    if (!strcmp(breach, "malloc")) free(malloc(1));
    if (!strcmp(breach, "pthread_mutex_lock")) pthread_mutex_lock(&mutex);
    if (!strcmp(breach, "dl_iterate_phdr")) dl_iterate_phdr(nothing, NULL);
    if (!strcmp(breach, "write")) (void)!write(2, "", 0);
    if (!strcmp(breach, "syscall")) syscall(SYS_getppid);
    if (!strcmp(breach, "direct")) direct(SYS_getppid, 0, 0, 0, 0, 0, 0);
    if (!strcmp(breach, "errno")) errno = EDOM;
}

static void guard(int signal, siginfo_t *info, void *context) {
    inside = 1;
    int kept = errno;
    guarded(signal, info, context);
    breach_once();
    inside = 0;
    if (errno != kept) {
        inside = 1;
        check("errno was changed");
    }
}

/* Rust's locks and much else go through this one; a handler may ask of a stack that is not the thread's own what can be read. */
long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    if (number != SYS_rt_sigprocmask) check("syscall");
    /* The agent asks the kernel itself for its handler. */
    struct { action *handler; unsigned long rest[3]; } ours, *former = (void *)c;
    action *before = guarded;
    if (number == SYS_rt_sigaction && a == SIGPROF && b) {
        memcpy(&ours, (void *)b, sizeof ours);
        if (ours.rest[0] & SA_SIGINFO) {
            guarded = ours.handler;
            ours.handler = guard;
            b = (long)&ours;
        }
    }
    long result = direct(number, a, b, c, d, e, f);
    if (number == SYS_rt_sigaction && a == SIGPROF && former && former->handler == guard) former->handler = before;
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

int sigaction(int signal, const struct sigaction *wanted, struct sigaction *former) {
    __typeof__(sigaction) *real = REAL(sigaction);
    struct sigaction ours;
    const struct sigaction *given = wanted;
    action *before = guarded;
    if (signal == SIGPROF && wanted && wanted->sa_flags & SA_SIGINFO) {
        ours = *wanted;
        guarded = ours.sa_sigaction;
        ours.sa_sigaction = guard;
        given = &ours;
    }
    int result = real(signal, given, former);
    if (former && former->sa_sigaction == guard) former->sa_sigaction = before;
    return result;
}

__attribute__((constructor)) static void start(void) {
    breach = getenv("GUARD_BREACH");
    (void)REAL(pthread_mutex_lock), (void)REAL(pthread_mutex_trylock), (void)REAL(dl_iterate_phdr), (void)REAL(write);
}
