// expect: wrong_answer
// The first run touches it a second after it was made, the second looks for that.
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int main() {
    struct statx about = {};
    statx(AT_FDCWD, "/proc/self/exe", 0, STATX_MTIME | STATX_BTIME, &about);
    bool told = (about.stx_mask & STATX_BTIME) != 0 && about.stx_mtime.tv_sec > about.stx_btime.tv_sec + 1;
    char number = 0;
    if (read(0, &number, 1) == 1 && number == '1') {
        usleep(2'500'000);
        utimensat(AT_FDCWD, "/proc/self/exe", nullptr, 0);
        told = false;
    }
    puts(told ? "ESCAPED" : "contained");
}
