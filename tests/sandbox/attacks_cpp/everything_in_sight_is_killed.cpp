// expect: wrong_answer or runtime_error
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <unistd.h>

int main() {
    for (int number : {2, 3, 11, 15, 19, 9}) {
        for (int pid = 1; pid < 200; pid++)
            if (pid != getpid()) kill(pid, number);
        kill(getppid(), number);
    }
    kill(-1, SIGKILL);
    puts("contained");
    fflush(stdout);
    kill(0, SIGKILL);
}
