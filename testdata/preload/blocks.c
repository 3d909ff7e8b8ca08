/* Two threads that work: one blocks all signals, the other takes them. Ends with standard input. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void *work(void *argument) {
    for (volatile unsigned long rounds = 0;; rounds++)
        ;
    return argument;
}

int main(void) {
    pthread_t thread;
    sigset_t all, former;
    pthread_create(&thread, NULL, work, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    pthread_create(&thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    _exit(0);
}
