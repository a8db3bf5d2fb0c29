// expect: time_limit
// The parent of a vfork sleeps where only SIGKILL reaches it.
#include <cstdio>
#include <unistd.h>

int main() {
    if (vfork() == 0) {
        sleep(3);
        _exit(0);
    }
    puts("ESCAPED");
}
