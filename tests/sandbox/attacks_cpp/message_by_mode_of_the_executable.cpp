// expect: wrong_answer
#include <cstdio>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <linux/fs.h>
#include <sys/stat.h>

int main() {
    struct stat now {};
    stat("/proc/self/exe", &now);
    bool told = now.st_mode & 01000;
    chmod("/proc/self/exe", now.st_mode | 01000);
    int file = open("/proc/self/exe", O_RDONLY);
    unsigned long hint = 0;
    fcntl(file, F_GET_RW_HINT, &hint);
    told |= hint == 3;
    hint = 3;
    fcntl(file, F_SET_RW_HINT, &hint);
    int flags = 0;
    ioctl(file, FS_IOC_GETFLAGS, &flags);
    told |= (flags & FS_NODUMP_FL) != 0;
    flags |= FS_NODUMP_FL;
    ioctl(file, FS_IOC_SETFLAGS, &flags);
    puts(told ? "ESCAPED" : "contained");
}
