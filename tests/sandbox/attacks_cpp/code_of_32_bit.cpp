// expect: sandbox_violation
// The processor itself is switched to 32 bit, and asks the kernel from there.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

int main() {
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    auto low = static_cast<char*>(mmap(nullptr, 1 << 16, all, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
    const unsigned char code[] = {0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xcb};  // mov eax, getpid; int 0x80; retf
    memcpy(low, code, sizeof code);
    struct __attribute__((packed)) {
        uint32_t offset;
        uint16_t segment;
    } target = {static_cast<uint32_t>(reinterpret_cast<uintptr_t>(low)), 0x23};
    unsigned result;
    auto stack = low + (1 << 15);
    asm volatile(
        "movq %%rsp, %%r12\n movq %2, %%rsp\n lcall *(%1)\n movq %%r12, %%rsp"
        : "=a"(result)
        : "r"(&target), "r"(stack)
        : "r12", "memory");
    puts(result > 0 ? "ESCAPED" : "contained");
}
