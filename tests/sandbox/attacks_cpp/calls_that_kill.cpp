// expect: wrong_answer
// Each call in a process of its own, which must not survive it.
#include <csignal>
#include <cstdio>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main() {
    const long calls[] = {
        SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd,
        SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_add_key, SYS_request_key, SYS_keyctl,
        SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_open_by_handle_at,
    };
    for (long call : calls) {
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGSYS, SIG_IGN);
            syscall(call, 0, 0, 0, 0, 0, 0);
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) {
            puts("ESCAPED");
            return 0;
        }
    }
    puts("contained");
}
