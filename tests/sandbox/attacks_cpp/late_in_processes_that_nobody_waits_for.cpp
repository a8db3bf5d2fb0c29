// expect: time_limit
#include <csignal>
#include <cstdio>
#include <ctime>
#include <unistd.h>

int main() {
    signal(SIGCHLD, SIG_IGN);
    int ends[2];
    if (pipe(ends) != 0) return 1;
    for (int child = 0; child < 4; child++) {
        if (fork() != 0) continue;
        setsid();
        while (clock() < CLOCKS_PER_SEC) {}
        write(ends[1], "x", 1);
        _exit(0);
    }
    char byte;
    for (int child = 0; child < 4; child++) read(ends[0], &byte, 1);
    puts("ESCAPED");
}
