// expect: sandbox_violation
#include <cstdio>

int main() {
    long result;
    asm volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");  // getpid
    puts(result > 0 ? "ESCAPED" : "contained");
}
