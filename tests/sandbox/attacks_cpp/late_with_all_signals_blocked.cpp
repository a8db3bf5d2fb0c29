// expect: time_limit
#include <csignal>
#include <cstdio>
#include <ctime>
#include <sys/prctl.h>
#include <sys/resource.h>

int main() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    for (int number = 1; number < 65; number++) signal(number, SIG_IGN);
    rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &none);
    setpriority(PRIO_PROCESS, 0, 19);
    setpriority(PRIO_USER, 0, 19);
    prctl(PR_SET_PDEATHSIG, 0);
    prctl(PR_SET_TIMERSLACK, 1UL << 40);
    prctl(PR_SET_DUMPABLE, 0);
    while (clock() < 3 * CLOCKS_PER_SEC) {}
    puts("ESCAPED");
}
