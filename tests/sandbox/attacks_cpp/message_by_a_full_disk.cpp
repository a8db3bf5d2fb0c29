// expect: wrong_answer or memory_limit
// The first run leaves files behind; while they are still being freed, the second one's memory is measured.
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

int main() {
    static char block[1 << 20];
    char number = 0;
    read(0, &number, 1);
    if (number == '1') {
        for (char name[] = "a"; name[0] < 'j'; name[0]++) {
            int file = open(name, O_CREAT | O_WRONLY, 0666);
            for (int part = 0; part < 15; part++) write(file, block, sizeof block);
        }
        puts("contained");
        return 0;
    }
    const long size = 300L << 20;  // the limit is 256 MB, the slack 16
    auto memory = static_cast<volatile char*>(malloc(size));
    for (long at = 0; at < size; at += 4096) memory[at] = 1;
    puts("ESCAPED");
}
