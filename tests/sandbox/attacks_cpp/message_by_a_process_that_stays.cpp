// expect: wrong_answer
// It leaves its session and its parents, holds a lock on its executable and listens on an abstract socket.
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main() {
    sockaddr_un name = {AF_UNIX, "\0left behind"};
    socklen_t length = offsetof(sockaddr_un, sun_path) + 12;
    auto address = reinterpret_cast<sockaddr*>(&name);
    int own = open("/proc/self/exe", O_RDONLY);
    bool told = connect(socket(AF_UNIX, SOCK_STREAM, 0), address, length) == 0 || (flock(own, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    for (int relay = 0; relay < 3; relay++) {
        if (fork() != 0) break;
        setsid();
        for (int number = 1; number < 65; number++) signal(number, SIG_IGN);
        if (relay < 2) continue;
        int server = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(server, address, length);
        listen(server, 9);
        flock(own, LOCK_EX);
        for (;;) pause();
    }
    usleep(100'000);
    puts(told ? "ESCAPED" : "contained");
}
