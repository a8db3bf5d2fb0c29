// expect: wrong_answer
#include <cstdio>
#include <initializer_list>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int main() {
    bool worked = false;
    char byte;
    for (const char* name : {"mem", "maps", "smaps", "environ", "auxv", "pagemap", "syscall", "stack", "personality", "io"}) {
        char path[64];
        snprintf(path, sizeof path, "/proc/1/%s", name);
        int file = open(path, O_RDONLY);
        if (file >= 0 && read(file, &byte, 1) == 1) worked = true;
    }
    for (const char* name : {"fd/0", "fd/3", "root/tmp", "cwd", "exe", "ns/mnt", "map_files"}) {
        char path[64];
        snprintf(path, sizeof path, "/proc/1/%s", name);
        if (open(path, O_RDONLY) >= 0) worked = true;
    }
    for (const char* name : {"mem", "oom_score_adj", "clear_refs", "comm", "coredump_filter", "attr/current"}) {
        char path[64];
        snprintf(path, sizeof path, "/proc/1/%s", name);
        if (open(path, O_WRONLY) >= 0) worked = true;
    }
    int init = static_cast<int>(syscall(SYS_pidfd_open, 1, 0));
    if (init >= 0) {
        for (int number = 0; number < 20; number++)
            if (syscall(SYS_pidfd_getfd, init, number, 0) >= 0) worked = true;
        if (syscall(SYS_process_madvise, init, nullptr, 0, 4, 0) > 0) worked = true;
    }
    puts(worked ? "ESCAPED" : "contained");
}
