// expect: time_limit
// Each exec begins with new timers and handlers; the run keeps its clocks.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <unistd.h>

int main(int count, char** arguments) {
    int round = count > 1 ? atoi(arguments[1]) : 0;
    if (round == 30) {
        puts("ESCAPED");
        return 0;
    }
    clock_t end = clock() + CLOCKS_PER_SEC / 10;
    while (clock() < end) {}
    execl("/proc/self/exe", arguments[0], std::to_string(round + 1).c_str(), nullptr);
}
