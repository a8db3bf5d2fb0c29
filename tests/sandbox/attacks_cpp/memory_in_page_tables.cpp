// expect: memory_limit or runtime_error
// A byte in each two megabytes: little memory, but a page table for each.
#include <cstdio>
#include <sys/mman.h>

int main() {
    const size_t step = 2UL << 20, count = 1UL << 20;
    auto memory = static_cast<volatile char*>(
        mmap(nullptr, step * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory == MAP_FAILED) return 1;
    madvise(const_cast<char*>(memory), step * count, MADV_NOHUGEPAGE);
    for (size_t index = 0; index < count; index++) memory[index * step] = memory[index * step];
    puts("ESCAPED");
}
