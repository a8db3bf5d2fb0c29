// expect: runtime_error
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

int main() {
    puts("ESCAPED");
    fflush(stdout);
    atexit([] { _exit(255); });
    exit(0);
}
