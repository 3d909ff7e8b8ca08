/* Eight threads allocate, fill, grow, hand to each other, check and free blocks, while every few bytes are sampled; stress ROUNDS. Exits with 0 if no byte was wrong. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, STEPS = 60000, PLACES = 256 };

struct block {
    size_t size;
    unsigned char bytes[];
};

static _Atomic(struct block *) places[PLACES];
static atomic_int wrong;

static struct block *filled(struct block *block, size_t size) {
    block->size = size;
    memset(block->bytes, (int)(size & 0xff), size);
    return block;
}

static void check(const struct block *block) {
    for (size_t i = 0; i < block->size; i++)
        if (block->bytes[i] != (block->size & 0xff))
            wrong = 1;
}

static void *work(void *seed) {
    uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t size = (random >> 33) % 2000, place = (random >> 50) % PLACES;
        struct block *block = filled(malloc(sizeof *block + size), size);
        block = atomic_exchange(&places[place], block);
        if (!block)
            continue;
        check(block);
        if (random & (1 << 20)) {
            size_t former = block->size, larger = former + size;
            block = realloc(block, sizeof *block + larger);
            check(block);
            check(filled(block, larger));
        }
        free(block);
    }
    return NULL;
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 1;
    for (int round = 0; round < rounds; round++) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, work, (void *)(i + THREADS * round));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    return wrong;
}
