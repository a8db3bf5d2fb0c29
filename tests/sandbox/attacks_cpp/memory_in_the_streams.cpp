// expect: wrong_answer or memory_limit or output_limit or runtime_error
// Standard input is a file in memory, too; what is reserved in it lies in no process.
#include <cstdio>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main() {
    bool worked = false;
    for (int stream = 0; stream < 3; stream++) {
        worked |= fallocate(stream, FALLOC_FL_KEEP_SIZE, 0, 1L << 30) == 0;
        worked |= fallocate(stream, 0, 0, 1L << 30) == 0;
        worked |= ftruncate(stream, 1L << 40) == 0;
        worked |= pwrite(stream, "x", 1, 1L << 40) == 1;
        fcntl(stream, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    }
    puts(worked ? "ESCAPED" : "contained");
}
