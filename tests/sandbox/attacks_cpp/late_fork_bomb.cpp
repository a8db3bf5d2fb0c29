// expect: time_limit
#include <unistd.h>

int main() {
    for (;;)
        if (fork() == 0) setsid();
}
