// expect: wrong_answer or runtime_error or time_limit or memory_limit
#include <csignal>
#include <cstdio>
#include <unistd.h>

int main() {
    signal(SIGCHLD, SIG_IGN);
    for (int round = 0; round < 200; round++) {
        if (fork() == 0) setsid();
        if (round % 5 == 0 && vfork() == 0) _exit(0);
    }
    usleep(200'000);
    puts("contained");
    fflush(stdout);
    _exit(0);
}
