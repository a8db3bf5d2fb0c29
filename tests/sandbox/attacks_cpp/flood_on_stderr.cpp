// expect: output_limit or time_limit
#include <cstdio>

int main() {
    puts("ESCAPED");
    fflush(stdout);
    for (;;) fputs("ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED\n", stderr);
}
