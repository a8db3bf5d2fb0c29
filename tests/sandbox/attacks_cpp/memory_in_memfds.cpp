// expect: memory_limit or wrong_answer
#include <cstdio>
#include <sys/mman.h>
#include <unistd.h>

int main() {
    static char block[1 << 20];
    long written = 0;
    for (int file = 0; file < 100; file++) {
        int memory = memfd_create("x", 0);
        for (int part = 0; part < 10; part++)
            if (pwrite(memory, block, sizeof block, static_cast<off_t>(part) << 20) == sizeof block) written++;
    }
    puts(written > 600 ? "ESCAPED" : "contained");
}
