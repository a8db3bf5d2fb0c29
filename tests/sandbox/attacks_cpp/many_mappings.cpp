// expect: wrong_answer or runtime_error or memory_limit
#include <cstdio>
#include <sys/mman.h>

int main() {
    long made = 0;
    for (; made < 1'000'000; made++) {
        int access = made % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
        if (mmap(nullptr, 4096, access, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
    }
    puts(made == 1'000'000 ? "ESCAPED" : "contained");
}
