// expect: runtime_error
#include <cstdio>
#include <cstdlib>

struct Last {
    ~Last() { abort(); }
} last;

int main() { puts("ESCAPED"); }
