// Defines pthread_mutex_lock and its like itself, on the loader's next ones, and keeps books of its own, as brpc does; then waits for such a mutex and for a
// read-write lock of the C library's, whenever a line is read. Prints how often its own functions were called. Ends with its input.
#include <atomic>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <stdio.h>
#include <string.h>
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

static std::atomic<int> waiter_id;

// Whether the thread sleeps, by its line in /proc.
static bool is_asleep(int id) {
    char name[64], line[256] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", id);
    int file = open(name, O_RDONLY);
    ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    return length > 0 && strstr(line, ") S ");
}

template <typename Lock> static void contend(Lock &lock, void (*waits)()) {
    lock.lock();
    waiter_id = 0;
    std::thread waiter([=] {
        waiter_id = gettid();
        waits(), waits();
    });
    while (waiter_id == 0 || !is_asleep(waiter_id))
        usleep(1000);
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
