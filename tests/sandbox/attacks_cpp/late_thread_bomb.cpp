// expect: time_limit
#include <pthread.h>

void* forever(void*) {
    for (volatile int busy = 1; busy;) {}
    return nullptr;
}

int main() {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 15);
    pthread_t thread;
    for (;;) pthread_create(&thread, &small, forever, nullptr);
}
