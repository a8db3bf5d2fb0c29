// expect: wrong_answer or runtime_error
// Its file, its mapped pages and its source are written to; the next run would see it.
#include <cstdio>
#include <initializer_list>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((section(".text"), used)) const volatile char note[4096] = "clean";

int main() {
    bool told = note[0] != 'c' || access("/tmp/note", F_OK) == 0;
    auto page = reinterpret_cast<char*>(reinterpret_cast<unsigned long>(note) & ~4095UL);
    int memory = open("/proc/self/mem", O_RDWR);
    if (memory >= 0) pwrite(memory, "told", 5, reinterpret_cast<off_t>(note));
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) const_cast<char&>(note[0]) = 't';
    msync(page, 8192, MS_SYNC);
    for (int flags : {O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND}) {
        int file = open("/proc/self/exe", flags);
        if (file < 0) continue;
        pwrite(file, "told", 4, 0);
        told = true;
    }
    int file = open("/proc/self/exe", O_RDONLY);
    if (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED) told = true;
    void* shared = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (shared != MAP_FAILED && mprotect(shared, 4096, PROT_READ | PROT_WRITE) == 0) told = true;
    if (truncate("/proc/self/exe", 0) == 0 || ftruncate(file, 0) == 0) told = true;
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) told = true;
    if (linkat(AT_FDCWD, "/proc/self/exe", AT_FDCWD, "/tmp/note", AT_SYMLINK_FOLLOW) == 0) told = true;
    FILE* source = fopen("/tmp/solution.cpp", "a");
    if (source) fputs("//", source);
    FILE* left = fopen("/tmp/note", "w");
    if (left) fputs("1", left);
    puts(told ? "ESCAPED" : "contained");
}
