// expect: wrong_answer
#include <cstdio>
#include <initializer_list>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int main() {
    bool worked = false;
    for (const char* path : {"/etc/passwd", "/etc/hostname", "/root/.ssh", "/sys", "/boot", "/run", "/var/log", "/mnt",
                             "/usr/bin/env", "/usr/bin/g++", "/usr/include", "/dev/mem", "/dev/kvm", "/dev/tty", "/dev/fuse",
                             "/dev/shm/x", "/proc/kcore", "/sys/fs/cgroup", "/..//etc/passwd"})
        worked |= access(path, F_OK) == 0;
    for (const char* path : {"/", "/usr", "/usr/lib", "/dev", "/packages", "/proc", "/dev/null", "/var"})
        worked |= (access(path, W_OK) == 0 && path[1] != 'd') || chmod(path, 0777) == 0 || chown(path, 1000, 1000) == 0
            || utimensat(AT_FDCWD, path, nullptr, 0) == 0;
    worked |= open("/new", O_CREAT | O_WRONLY, 0666) >= 0 || open("/usr/new", O_CREAT | O_WRONLY, 0666) >= 0
        || open("/dev/new", O_CREAT | O_WRONLY, 0666) >= 0;
    puts(worked ? "ESCAPED" : "contained");
}
