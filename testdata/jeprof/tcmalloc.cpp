// Allocates under tcmalloc's heap profiler and writes all it offers: tcmalloc PREFIX
// PREFIX.0001.heap and PREFIX.0002.heap (heapprofile), PREFIX.sample (heap_v2) and PREFIX.growth.
// Build: c++ -g -O2 tcmalloc.cpp -ltcmalloc; run with TCMALLOC_SAMPLE_PARAMETER=4096
#include <fstream>
#include <gperftools/heap-profiler.h>
#include <gperftools/malloc_extension.h>
#include <memory>
#include <string>
#include <vector>

static std::vector<std::unique_ptr<std::string>> texts;
static std::vector<void *> blocks;

__attribute__((noinline)) void keep_texts(int count) {
    for (int number = 0; number < count; number++) {
        texts.push_back(std::make_unique<std::string>(200 + number % 300, 'x'));
    }
}

__attribute__((noinline)) void keep_blocks(int count) {
    for (int number = 0; number < count; number++) {
        blocks.push_back(malloc(4096 + 64 * (number % 10)));
    }
}

__attribute__((noinline)) void free_some() {
    for (std::size_t index = 0; index < blocks.size(); index += 3) {
        free(blocks[index]);
        blocks[index] = nullptr;
    }
}

int main(int, char **words) {
    const std::string prefix = words[1];
    HeapProfilerStart(prefix.c_str());
    keep_texts(400);
    keep_blocks(300);
    HeapProfilerDump("first");
    keep_texts(900);
    free_some();
    HeapProfilerDump("second");
    HeapProfilerStop();
    std::string sample, growth;
    MallocExtension::instance()->GetHeapSample(&sample);
    MallocExtension::instance()->GetHeapGrowthStacks(&growth);
    std::ofstream(prefix + ".sample") << sample;
    std::ofstream(prefix + ".growth") << growth;
}
