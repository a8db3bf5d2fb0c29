// expect: wrong_answer
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

int main() {
    write(1, "CONTAIN\n", 8);
    auto output = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 1, 0));
    if (fork() == 0) {
        setsid();
        for (int number = 1; number < 65; number++) signal(number, SIG_IGN);
        usleep(50'000);
        for (;;) {
            pwrite(1, "ESCAPED\n", 8, 0);
            if (output != MAP_FAILED) memcpy(output, "ESCAPED\n", 8);
        }
    }
    _exit(0);
}
