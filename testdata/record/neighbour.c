/* A process that costs a profiler of its host as much as it can. It prints a line when it begins.
   neighbour mappings      maps and unmaps its own code all the time
   neighbour names         changes its name all the time
   neighbour births        starts and ends threads all the time
   neighbour forks         starts and ends processes all the time
   neighbour threads       10,000 threads, each of which wakes up once a second
   neighbour starts        starts a process 100 times a second
   neighbour jvm LIBJVM    looks like a JVM, and answers nobody
   The first two take `slowly`: at most twice in a millisecond. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 10000
#define MAPPINGS 64

extern char **environ;

static void require(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static void rest(long nanos) {
    struct timespec time = {.tv_sec = nanos / 1000000000, .tv_nsec = nanos % 1000000000};
    nanosleep(&time, NULL);
}

static void *mapped(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    require(file >= 0, path);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    require(at != MAP_FAILED, "mmap");
    close(file);
    return at;
}

// Rests now and then, if that is wanted.
static void pace(int slowly, unsigned long round) {
    if (slowly && round % 2 == 0)
        rest(1000000);
}

static void mappings(int slowly) {
    void *at[MAPPINGS] = {NULL};
    for (unsigned long round = 0;; round++) {
        pace(slowly, round);
        void **place = &at[round % MAPPINGS];
        if (*place)
            munmap(*place, 4096);
        *place = mapped("/proc/self/exe");
    }
}

static void names(int slowly) {
    char name[16];
    for (unsigned number = 0;; number++) {
        pace(slowly, number);
        snprintf(name, sizeof name, "name-%u", number % 10000000);
        prctl(PR_SET_NAME, name);
    }
}

static void *born(void *unused) {
    return unused;
}

static void births(void) {
    for (;;) {
        pthread_t id;
        require(pthread_create(&id, NULL, born, NULL) == 0, "pthread_create");
        pthread_join(id, NULL);
    }
}

static void forks(void) {
    for (;;) {
        pid_t child = fork();
        require(child >= 0, "fork");
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
}

static void *thread(void *unused) {
    for (;;)
        rest(1000000000);
    return unused;
}

static void threads(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    for (int number = 0; number < THREADS; number++) {
        pthread_t id;
        require(pthread_create(&id, &small, thread, NULL) == 0, "pthread_create");
    }
    thread(NULL);
}

static void starts(void) {
    char *arguments[] = {"true", NULL};
    for (;;) {
        pid_t child;
        require(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0, "posix_spawn");
        waitpid(child, NULL, 0);
        rest(9000000);
    }
}

static void jvm(const char *library) {
    mapped(library);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/.java_pid%d", (int)getpid());
    int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(socket_ >= 0 && bind(socket_, (struct sockaddr *)&address, sizeof address) == 0, address.sun_path);
    require(listen(socket_, 16) == 0, "listen");
    unsigned char code[] = {0xb9, 0x00, 0x10, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3}; /* a loop of 4096 rounds */
    unsigned char *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(made != MAP_FAILED, "mmap");
    memcpy(made, code, sizeof code);
    for (unsigned long round = 1;; round++) {
#ifdef __x86_64__
        ((void (*)(void))made)();
#endif
        if (round % 1000 == 0)
            rest(2000000);
    }
}

int main(int count, char **arguments) {
    const char *kind = count > 1 ? arguments[1] : "";
    puts("ready");
    fflush(stdout);
    if (strcmp(kind, "mappings") == 0)
        mappings(count > 2);
    if (strcmp(kind, "names") == 0)
        names(count > 2);
    if (strcmp(kind, "births") == 0)
        births();
    if (strcmp(kind, "forks") == 0)
        forks();
    if (strcmp(kind, "threads") == 0)
        threads();
    if (strcmp(kind, "starts") == 0)
        starts();
    if (strcmp(kind, "jvm") == 0 && count > 2)
        jvm(arguments[2]);
    fprintf(stderr, "usage: neighbour mappings|names|births|forks|threads|starts|jvm [MORE]\n");
    return 1;
}
