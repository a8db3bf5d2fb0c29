// expect: wrong_answer or memory_limit
#include <cstdio>
#include <pthread.h>
#include <unistd.h>

void* forever(void*) {
    for (;;) pause();
}

int main() {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 15);
    int made = 0;
    pthread_t thread;
    while (made < 5000 && pthread_create(&thread, &small, forever, nullptr) == 0) made++;
    puts(made > 500 ? "ESCAPED" : "contained");
    fflush(stdout);
    _exit(0);
}
