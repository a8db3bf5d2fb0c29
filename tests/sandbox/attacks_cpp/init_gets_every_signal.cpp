// expect: wrong_answer
// The init of a run shares memory with the process that runs are forked from.
#include <csignal>
#include <cstdio>
#include <unistd.h>

int main() {
    for (int round = 0; round < 20; round++)
        for (int number = 1; number < 65; number++)
            if (number != SIGCONT) kill(1, number);
    kill(1, SIGINT);
    usleep(200'000);
    puts("contained");
}
