// expect: wrong_answer
#include <cstdio>
#include <initializer_list>
#include <sys/socket.h>
#include <unistd.h>

int main() {
    bool worked = false;
    for (int family = 0; family < 64; family++)
        for (int kind : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET})
            worked |= family != AF_UNIX && socket(family, kind, 0) >= 0;
    int pair[2];
    worked |= socketpair(AF_NETLINK, SOCK_RAW, 0, pair) == 0;
    puts(worked ? "ESCAPED" : "contained");
}
