// expect: wrong_answer
// Everything that can be read: own memory, descriptors, and all files below / and /proc.
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <ctime>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

static char buffer[1 << 20];
static int files = 0;

void scan(const char* data, long size) {
    const char secret[] = {'S' ^ 1, 'E' ^ 1, 'C' ^ 1, 'R' ^ 1, 'E' ^ 1, 'T' ^ 1};
    for (long at = 0; at + 38 <= size; at++) {
        int same = 0;
        while (same < 6 && data[at + same] == (secret[same] ^ 1)) same++;
        if (same == 6 && strspn(data + at + 6, "0123456789abcdef") >= 32) {
            write(1, data + at, 38);
            _exit(0);
        }
    }
}

void scan_file(int file) {
    for (off_t at = 0; at < 8 << 20;) {
        long got = pread(file, buffer, sizeof buffer - 1, at);
        if (got <= 0) return;
        scan(buffer, got);
        if (got < 64) return;
        at += got - 63;
    }
}

void walk(const std::string& path, int depth) {
    DIR* folder = depth < 6 ? opendir(path.c_str()) : nullptr;
    if (!folder) return;
    while (dirent* entry = readdir(folder)) {
        std::string name = path + "/" + entry->d_name;
        struct stat about;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || lstat(name.c_str(), &about)) continue;
        if (S_ISDIR(about.st_mode)) walk(name, depth + 1);
        if (S_ISREG(about.st_mode) && about.st_mtime > time(nullptr) - 86400 && files++ < 3000) {
            int file = open(name.c_str(), O_RDONLY | O_NONBLOCK);
            if (file >= 0) scan_file(file);
            close(file);
        }
    }
    closedir(folder);
}

int main() {
    for (int descriptor = 0; descriptor < 1024; descriptor++) scan_file(descriptor);
    if (FILE* maps = fopen("/proc/self/maps", "r")) {
        int memory = open("/proc/self/mem", O_RDONLY);
        char line[512];
        while (fgets(line, sizeof line, maps)) {
            unsigned long from, to;
            if (sscanf(line, "%lx-%lx r", &from, &to) != 2 || to - from > 64UL << 20) continue;
            for (unsigned long at = from; at < to; at += sizeof buffer - 64) {
                long got = pread(memory, buffer, sizeof buffer - 1, static_cast<off_t>(at));
                if (got > 0) scan(buffer, got);
            }
        }
    }
    extern char** environ;
    for (char** word = environ; *word; word++) scan(*word, static_cast<long>(strlen(*word)));
    walk("/proc", 0);
    walk("/tmp", 0);
    walk("", 0);
    puts("contained");
}
