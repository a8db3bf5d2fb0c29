// expect: time_limit
#include <csignal>
#include <cstdio>
#include <unistd.h>

int main() {
    pid_t parent = getpid();
    if (fork() == 0) {
        setsid();
        sleep(3);
        kill(parent, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    puts("ESCAPED");
}
