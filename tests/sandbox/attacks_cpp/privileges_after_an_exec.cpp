// expect: wrong_answer
// A set-user-ID copy of itself is executed; every file that is executed keeps the filter and gains nothing.
#include <cstdio>
#include <initializer_list>
#include <cstring>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char** arguments) {
    if (count == 1) {
        int own = open("/proc/self/exe", O_RDONLY);
        int copy = open("/tmp/copy", O_WRONLY | O_CREAT, 0777);
        while (sendfile(copy, own, nullptr, 1 << 20) > 0) {}
        fchmod(copy, 06777);
        close(copy);
        char* again[] = {arguments[0], const_cast<char*>("again"), nullptr};
        execv("/tmp/copy", again);
        execv("/proc/self/exe", again);
        return 1;
    }
    char line[256];
    bool gained = geteuid() == 0 || getegid() == 0;
    FILE* status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        for (const char* name : {"CapPrm:\t", "CapEff:\t", "CapBnd:\t", "CapAmb:\t"})
            if (!strncmp(line, name, 8) && strcmp(line + 8, "0000000000000000\n")) gained = true;
        if (!strncmp(line, "NoNewPrivs:", 11) && !strchr(line, '1')) gained = true;
        if (!strncmp(line, "Seccomp:", 8) && !strchr(line, '2')) gained = true;
    }
    puts(gained ? "ESCAPED" : "contained");
}
