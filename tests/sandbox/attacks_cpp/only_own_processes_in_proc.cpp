// expect: wrong_answer
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <unistd.h>

int main() {
    bool other = false;
    DIR* proc = opendir("/proc");
    while (dirent* entry = proc ? readdir(proc) : nullptr) {
        if (!isdigit(entry->d_name[0])) continue;
        int pid = atoi(entry->d_name);
        other |= pid != 1 && pid != getpid();
    }
    other |= access("/proc/sys", F_OK) == 0 || access("/proc/sysrq-trigger", F_OK) == 0 || getppid() > 1;
    other |= access("/proc/self/autogroup", W_OK) == 0 || access("/proc/self/oom_score_adj", W_OK) == 0;
    puts(other ? "ESCAPED" : "contained");
}
