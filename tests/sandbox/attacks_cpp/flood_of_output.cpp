// expect: output_limit
#include <cstdio>

int main() {
    for (;;) puts("ESCAPED");
}
