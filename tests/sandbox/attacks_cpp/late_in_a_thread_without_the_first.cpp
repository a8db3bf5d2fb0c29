// expect: time_limit
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

void* rest(void*) {
    sleep(3);
    puts("ESCAPED");
    exit(0);
}

int main() {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    pthread_create(&thread, &small, rest, nullptr);
    pthread_exit(nullptr);
}
