// expect: wrong_answer
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

int worked = 0;

void look(const char* what, long result) {
    if (result < 0) return;
    worked = 1;
    fprintf(stderr, "%s ", what);
}

int main() {
    const unsigned long kinds[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS,
                                   CLONE_NEWCGROUP, 0x80};
    for (unsigned long kind : kinds) {
        look("unshare", unshare(static_cast<int>(kind)));
        if (kind == 0x80) continue;  // of time: only for unshare
        for (unsigned long more : {0UL, static_cast<unsigned long>(CLONE_NEWUSER)}) {
            long pid = syscall(SYS_clone, kind | more | 17, 0, 0, 0, 0);
            if (pid == 0) _exit(0);
            look("clone", pid);
            struct clone_args arguments = {};
            arguments.flags = kind | more;
            arguments.exit_signal = 17;
            pid = syscall(SYS_clone3, &arguments, sizeof arguments);
            if (pid == 0) _exit(0);
            look("clone3", pid);
        }
    }
    long sibling = syscall(SYS_clone, CLONE_PARENT | 17, 0, 0, 0, 0);
    if (sibling == 0) _exit(0);
    look("clone parent", sibling);
    for (const char* name : {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
        char path[64];
        snprintf(path, sizeof path, "/proc/1/ns/%s", name);
        look("ns", open(path, O_RDONLY));
    }
    int home = open("/proc/self/ns/pid", O_RDONLY);
    look("setns", home < 0 ? -1 : setns(home, CLONE_NEWPID));
    look("mount", mount("tmpfs", "/tmp", "tmpfs", 0, nullptr));
    look("remount", mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND, nullptr));
    look("move", mount("/tmp", "/usr", nullptr, MS_MOVE, nullptr));
    look("bind", mount("/tmp", "/usr", nullptr, MS_BIND, nullptr));
    look("umount", umount2("/proc", MNT_DETACH));
    look("umount", umount2("/box", MNT_DETACH));
    look("chroot", chroot("/tmp"));
    look("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
    look("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    look("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    uint64_t attributes[4] = {0, 1, 0, 0};  // clear read-only
    look("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, attributes, sizeof attributes));
    look("sethostname", sethostname("x", 1));
    timeval now = {};
    look("settimeofday", settimeofday(&now, nullptr));
    look("mknod", mknod("/tmp/device", S_IFBLK | 0777, 0xfe00));
    look("mknod", mknod("/tmp/device", S_IFCHR | 0777, 0x101));
    look("syslog", syscall(SYS_syslog, 3, nullptr, 0));
    look("swapon", syscall(SYS_swapon, "/tmp/x", 0));
    look("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0));
    look("acct", syscall(SYS_acct, "/tmp/x"));
    look("fanotify_init", syscall(SYS_fanotify_init, 0, 0));
    look("memfd_secret", syscall(SYS_memfd_secret, 0));
    look("shmget", syscall(SYS_shmget, 1, 4096, 01777));
    look("semget", syscall(SYS_semget, 1, 1, 01777));
    look("msgget", syscall(SYS_msgget, 1, 01777));
    look("mq_open", syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0777, nullptr));
    sched_param first = {1};
    look("sched_setscheduler", syscall(SYS_sched_setscheduler, 0, SCHED_IDLE, &first));
    look("ioprio_set", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
    look("kcmp", syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 1));
    look("setuid", setuid(0));
    look("setgid", setgid(0));
    puts(worked ? "ESCAPED" : "contained");
}
