// expect: wrong_answer
#include <cstdio>
#include <sys/xattr.h>

int main() {
    char seen[8];
    bool told = getxattr("/proc/self/exe", "user.told", seen, sizeof seen) > 0;
    setxattr("/proc/self/exe", "user.told", "1", 1, 0);
    puts(told ? "ESCAPED" : "contained");
}
