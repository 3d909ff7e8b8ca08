/* A program that waits in the way of its argument until standard input ends:
 * read         in read(), and allocates at each line;
 * epoll        in epoll_wait() of 10 ms, and never allocates;
 * threads      in read(), after it has started a thread that sleeps;
 * close        allocates all along, at the first line closes all descriptors but the standard ones and opens files
 *              under their numbers, and at the second counts those that are no longer its own;
 * fork         a forked child allocates all along, and so does this process, which prints the child's id;
 * interrupted  waits of 2 ms in epoll_wait, poll and nanosleep, between which it allocates; until the first line, it
 *              counts those that a signal has ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *text) {
    write(1, text, strlen(text));
}

static void allocate(void) {
    for (int round = 0; round < 8; round++) {
        char *volatile block = malloc(100000);
        block[0] = 1;
        free(block);
    }
}

/* One byte of standard input; 0 at its end. */
static int line(void) {
    char byte;
    while (read(0, &byte, 1) == 1)
        if (byte == '\n')
            return 1;
    return 0;
}

/* Whether there is something to read within so many milliseconds. */
static int has_input(int millis) {
    struct pollfd input = {0, POLLIN, 0};
    return poll(&input, 1, millis) > 0;
}

static void *sleeps(void *argument) {
    for (;;)
        pause();
    return argument;
}

static void wait_by_epoll(void) {
    int epoll = epoll_create1(0), is_over = 0;
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
    while (!is_over)
        is_over = epoll_wait(epoll, &event, 1, 10) > 0;
}

static int count_lost(const int *mine, int count) {
    struct stat null, found;
    stat("/dev/null", &null);
    int lost = 0;
    for (int index = 0; index < count; index++)
        lost += fstat(mine[index], &found) != 0 || found.st_rdev != null.st_rdev;
    return lost;
}

static void close_all(void) {
    static int mine[1021];
    char text[64];
    while (!has_input(1))
        allocate();
    line();
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        close(descriptor);
    for (int index = 0; index < 1021; index++)
        mine[index] = open("/dev/null", O_RDWR);
    say("closed\n");
    while (!has_input(1))
        allocate();
    line();
    sprintf(text, "lost %d\n", count_lost(mine, 1021));
    say(text);
}

static void fork_one(void) {
    char text[64];
    int child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            allocate();
            usleep(1000);
        }
    }
    sprintf(text, "%d\n", child);
    say(text);
    while (!has_input(1))
        allocate();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void count_interruptions(void) {
    int epoll = epoll_create1(0), interruptions = 0;
    char text[64];
    struct epoll_event event;
    while (!has_input(0)) {
        struct timespec time = {0, 2000000};
        allocate();
        interruptions += epoll_wait(epoll, &event, 1, 2) < 0;
        allocate();
        interruptions += poll(NULL, 0, 2) < 0;
        allocate();
        interruptions += nanosleep(&time, NULL) < 0;
    }
    line();
    sprintf(text, "interrupted %d\n", interruptions);
    say(text);
}

int main(int count, char **arguments) {
    const char *way = arguments[count - 1];
    pthread_t thread;
    if (strcmp(way, "threads") == 0)
        pthread_create(&thread, NULL, sleeps, NULL);
    if (strcmp(way, "fork") == 0)
        fork_one();
    else
        say("ready\n");
    if (strcmp(way, "epoll") == 0)
        wait_by_epoll();
    if (strcmp(way, "close") == 0)
        close_all();
    if (strcmp(way, "interrupted") == 0)
        count_interruptions();
    while (line()) {
        allocate();
        say("allocated\n");
    }
    return 0;
}
