// tcmalloc's heap profile, which C has no function for.

#include <gperftools/malloc_extension.h>

#include <cstring>
#include <string>

extern "C" char* heap_sample() {
  std::string text;
  MallocExtension::instance()->GetHeapSample(&text);
  return strdup(text.c_str());
}
