// Waits for locks of every kind with two threads each, keeping exact books of the waits, whenever a line is read; prints, for each function that waits,
// its waits, their nanoseconds, and how many of these are of waits in which the thread was preempted, too. Waits for conditions are not in the books. Ends
// with its input.
#include <condition_variable>
#include <errno.h>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <stdio.h>
#include <stdint.h>
#include <thread>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

using namespace std::chrono_literals;

struct Books {
    const char *function;
    uint64_t waits, nanos, preempted;
};

static uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static long preemptions() {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

// A lock that can't be had at once is waited for, and the wait is written down.
template <typename Try, typename Lock> __attribute__((always_inline)) static inline void take(Books &books, Try attempt, Lock lock) {
    if (attempt())
        return;
    long before = preemptions();
    uint64_t start = now();
    lock();
    uint64_t nanos = now() - start;
    books.nanos += nanos;
    books.preempted += preemptions() != before ? nanos : 0;
    books.waits++;
}

template <typename Lock> static void contend(Lock lock) {
    Books unused = {};
    auto work = [&lock](Books &books, int micros) {
        for (int round = 0; round < 40; round++) {
            lock(books, micros);
            std::this_thread::sleep_for(300us);
        }
    };
    Books books[2] = {unused, unused};
    std::thread other([&] { work(books[1], 3000); });
    work(books[0], 1000);
    other.join();
    printf("%s %llu %llu %llu\n", books[0].function, (unsigned long long)(books[0].waits + books[1].waits),
           (unsigned long long)(books[0].nanos + books[1].nanos), (unsigned long long)(books[0].preempted + books[1].preempted));
}

static void hold(int micros) { usleep(micros); }

#define WAITS(name) __attribute__((noinline)) static void name(Books &books, int micros)

static std::mutex a_mutex;
WAITS(waits_for_mutex) {
    books.function = __func__;
    take(books, [] { return a_mutex.try_lock(); }, [] { a_mutex.lock(); });
    hold(micros);
    a_mutex.unlock();
}

static std::recursive_mutex a_recursive_mutex;
WAITS(waits_for_recursive_mutex) {
    books.function = __func__;
    take(books, [] { return a_recursive_mutex.try_lock(); }, [] { a_recursive_mutex.lock(); });
    a_recursive_mutex.lock();
    hold(micros);
    a_recursive_mutex.unlock();
    a_recursive_mutex.unlock();
}

static std::timed_mutex a_timed_mutex;
WAITS(waits_for_timed_mutex) {
    books.function = __func__;
    take(books, [] { return a_timed_mutex.try_lock(); }, [] { while (!a_timed_mutex.try_lock_for(1s)) {} });
    hold(micros);
    a_timed_mutex.unlock();
}

static std::shared_mutex a_shared_mutex;
WAITS(waits_to_read) {
    books.function = __func__;
    if (micros > 2000) { // The one that holds it for longer writes.
        take(books, [] { return a_shared_mutex.try_lock(); }, [] { a_shared_mutex.lock(); });
        hold(micros);
        return a_shared_mutex.unlock();
    }
    take(books, [] { return a_shared_mutex.try_lock_shared(); }, [] { a_shared_mutex.lock_shared(); });
    a_shared_mutex.unlock_shared();
}

static pthread_rwlock_t a_rwlock = PTHREAD_RWLOCK_INITIALIZER;
WAITS(waits_to_write) {
    books.function = __func__;
    take(books, [] { return pthread_rwlock_trywrlock(&a_rwlock) == 0; }, [] { pthread_rwlock_wrlock(&a_rwlock); });
    hold(micros);
    pthread_rwlock_unlock(&a_rwlock);
}

WAITS(waits_to_write_timed) {
    books.function = __func__;
    timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    take(books, [] { return pthread_rwlock_trywrlock(&a_rwlock) == 0; }, [&] { pthread_rwlock_timedwrlock(&a_rwlock, &end); });
    hold(micros);
    pthread_rwlock_unlock(&a_rwlock);
}

// What is no contention, and what a lock has to answer as it does without us.
__attribute__((noinline)) static void idles_on_conditions() {
    std::mutex mutex;
    std::condition_variable condition;
    std::unique_lock lock(mutex);
    condition.wait_for(lock, 20ms);
    bool is_there = false;
    std::thread other([&] {
        std::unique_lock lock(mutex);
        is_there = true;
        condition.notify_one();
    });
    condition.wait(lock, [&] { return is_there; });
    lock.unlock();
    other.join();
}

static int answers() {
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &attributes);
    timespec past = {0, 0};
    errno = 77;
    bool right = pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == EDEADLK && pthread_mutex_trylock(&mutex) == EBUSY &&
                 pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == EPERM;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    right = right && pthread_rwlock_wrlock(&lock) == 0 && pthread_rwlock_rdlock(&lock) == EDEADLK && pthread_rwlock_wrlock(&lock) == EDEADLK &&
            pthread_rwlock_unlock(&lock) == 0;
    right = right && pthread_rwlock_wrlock(&a_rwlock) == 0;
    int code = 0;
    std::thread([&] { code = pthread_rwlock_timedrdlock(&a_rwlock, &past); }).join();
    right = right && code == ETIMEDOUT && pthread_rwlock_unlock(&a_rwlock) == 0;
    return right && errno == 77;
}

int main() {
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        contend(waits_for_mutex);
        contend(waits_for_recursive_mutex);
        contend(waits_for_timed_mutex);
        contend(waits_to_read);
        contend(waits_to_write);
        contend(waits_to_write_timed);
        idles_on_conditions();
        printf("answers %d\n", answers());
        fflush(stdout);
    }
}
