// Defines pthread_mutex_lock and its like itself, on the loader's next ones, and keeps books of its own, as brpc does; then waits for such a mutex and for a
// read-write lock of the C library's, whenever a line is read. Prints how often its own functions were called. Ends with its input.
#include <atomic>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <stdio.h>
#include <thread>
#include <unistd.h>

static std::atomic<int> locked, unlocked;

typedef int (*Function)(pthread_mutex_t *);

extern "C" __attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
    static Function next = (Function)dlsym(RTLD_NEXT, "pthread_mutex_lock");
    locked++;
    return next(mutex);
}

extern "C" __attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex) noexcept {
    static Function next = (Function)dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    unlocked++;
    return next(mutex);
}

static std::mutex a_mutex;
static std::shared_mutex a_shared_mutex;

__attribute__((noinline)) static void waits_for_own_mutex() {
    a_mutex.lock();
    a_mutex.unlock();
}

__attribute__((noinline)) static void waits_to_write() {
    a_shared_mutex.lock();
    a_shared_mutex.unlock();
}

template <typename Lock> static void contend(Lock &lock, void (*waits)()) {
    lock.lock();
    std::thread waiter([=] { waits(), waits(); });
    usleep(30000);
    lock.unlock();
    waiter.join();
}

int main() {
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        int locked_before = locked, unlocked_before = unlocked;
        contend(a_mutex, waits_for_own_mutex);
        contend(a_shared_mutex, waits_to_write);
        printf("own %d %d\n", locked - locked_before, unlocked - unlocked_before);
        fflush(stdout);
    }
}
