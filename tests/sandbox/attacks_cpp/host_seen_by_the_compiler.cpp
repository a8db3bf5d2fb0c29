// expect: wrong_answer
#include <cstdio>

#if __has_include("/etc/passwd") || __has_include("/etc/hostname") || __has_include("/root/.profile") \
    || __has_include("/proc/version") || __has_include("/proc/cpuinfo") || __has_include("/sys/kernel/mm") \
    || __has_include("/usr/share/dict") || __has_include("/usr/bin/env") \
    || __has_include("/boot/grub/grub.cfg") || __has_include("/var/log/dpkg.log")
int main() { puts("ESCAPED"); }
#else
int main() { puts("contained"); }
#endif
