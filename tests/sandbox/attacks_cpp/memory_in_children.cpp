// expect: memory_limit
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main() {
    auto done = static_cast<volatile int*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (int child = 0; child < 8; child++) {
        if (fork() != 0) continue;
        auto memory = static_cast<volatile char*>(malloc(100 << 20));
        for (long at = 0; at < 100 << 20; at += 4096) memory[at] = 1;
        done[child] = 1;
        sleep(1);
        _exit(0);
    }
    for (int child = 0; child < 8; child++) wait(nullptr);
    int all = 0;
    for (int child = 0; child < 8; child++) all += done[child];
    puts(all == 8 ? "ESCAPED" : "contained");
}
