"""The allowed and denied system calls, with reasons.

The lists come from traces of Python with its standard library, numpy, g++, compiled programs, and the zygote. They also
contain older and newer variants of these calls, for other versions of libc. Any other call fails with ENOSYS, for which
libraries have fallbacks. Calls with conditions are in seccomp.py.
"""

# Allowed without conditions.
ALLOWED = frozenset(
    (
        # Reads and writes on open files, pipes and sockets.
        "read write readv writev pread64 pwrite64 preadv pwritev lseek sendfile copy_file_range close close_range dup "
        "dup2 dup3 pipe pipe2 "
        # Files by path, within the mount namespace.
        "open openat creat stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink "
        "readlinkat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod "
        "mknodat chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat umask "
        "getcwd chdir fchdir getdents getdents64 truncate ftruncate fallocate getxattr lgetxattr fgetxattr listxattr "
        "llistxattr flistxattr "
        # Memory of the process itself, charged to its cgroup.
        "munmap mremap mprotect brk "
        # Waiting for descriptors, events and timers: select, asyncio, eventfd.
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd "
        "eventfd2 timerfd_create timerfd_settime timerfd_gettime signalfd signalfd4 pidfd_open "
        # Process creation, exec, exit and reaping: os.fork, subprocess, multiprocessing.
        "execve execveat exit exit_group wait4 waitid getpid getppid getpgid setpgid getpgrp getsid setsid "
        # Threads and locks of libc; newer versions use rseq and the newer futex calls.
        "gettid set_tid_address set_robust_list rseq futex futex_waitv futex_wake futex_wait futex_requeue "
        "sched_yield getcpu "
        # Queries about scheduling.
        "sched_getaffinity sched_getparam sched_getscheduler sched_getattr sched_get_priority_max "
        "sched_get_priority_min sched_rr_get_interval getpriority "
        # User and group ids; a program can only set its current ones.
        "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid "
        "setresgid "
        # Handling, masking and waiting for signals, including those of timers.
        "rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigreturn sigaltstack pause alarm "
        "setitimer getitimer restart_syscall "
        # Clocks and sleeping.
        "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getrusage "
        # System information, random numbers, limits.
        "uname sysinfo getrandom getrlimit "
        # Sockets between processes of one run; socket and socketpair cannot create others.
        "bind listen accept accept4 connect getsockname getpeername getsockopt shutdown sendto recvfrom sendmsg "
        "recvmsg sendmmsg recvmmsg "
    ).split()
)

# Reserved for the zygote, and its children until they become programs; programs get EPERM, as without a capability.
ZYGOTE_ONLY = frozenset("mount umount2 unshare setns capset seccomp landlock_restrict_self".split())

# No-ops that report success. Programs write only to memory, so they need no flush. readahead and fadvise64 would change
# the page cache, which other runs can observe.
NO_OP = frozenset("fsync fdatasync msync sync syncfs sync_file_range fadvise64 readahead".split())

# These fail with EPERM, as programs expect of privileged calls.
DENIED = frozenset(
    (
        # Settings of the whole machine, and memory locking and placement.
        "pivot_root chroot sethostname setdomainname acct quotactl swapon swapoff reboot vhangup syslog settimeofday "
        "clock_settime adjtimex clock_adjtime mlock mlock2 munlock mlockall munlockall set_mempolicy mbind "
        "migrate_pages move_pages "
        # A lower priority lengthens a thread's waits for a processor, which do not count as its time.
        "sched_setparam sched_setscheduler sched_setattr ioprio_set "
        # Runs share the files of the image: watches or locks on these would reveal activity of other runs.
        "inotify_init inotify_init1 fanotify_init name_to_handle_at flock "
        # A timer's signal number is in memory, which a filter cannot read, and could be a forbidden one.
        "timer_create "
        # Descriptors of other processes, and the identity of the process.
        "kcmp pidfd_getfd setgroups personality "
    ).split()
)

# These fail with ENOTSUP, which shutil ignores. Extended attributes are kernel memory, and could pass data to a later
# run.
NOT_SUPPORTED = frozenset("setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr".split())

# Calls that only attacks make. The filter kills the process; the verdict is sandbox_violation.
KILLED = frozenset(
    (
        # Access to the memory of other processes.
        "ptrace process_vm_readv process_vm_writev "
        # Kernel interfaces with many past vulnerabilities.
        "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register add_key request_key keyctl "
        # Changes of the kernel itself, and accesses that bypass file and device permissions.
        "kexec_load kexec_file_load init_module finit_module delete_module open_by_handle_at iopl ioperm modify_ldt "
    ).split()
)

# Name, number on x86-64, number on arm64; `-` if the machine lacks the call. Includes calls with conditions.
_TABLE = """
    accept 43 202  accept4 288 242  access 21 -  acct 163 89  add_key 248 217  adjtimex 159 171  alarm 37 -
    arch_prctl 158 -  bind 49 200  bpf 321 280  brk 12 214  capset 126 91  chdir 80 49  chmod 90 -  chown 92 -
    chroot 161 51  clock_adjtime 305 266  clock_getres 229 114  clock_gettime 228 113  clock_nanosleep 230 115
    clock_settime 227 112  clone 56 220  close 3 57  close_range 436 436  connect 42 203  copy_file_range 326 285
    creat 85 -  delete_module 176 106  dup 32 23  dup2 33 -  dup3 292 24  epoll_create 213 -  epoll_create1 291 20
    epoll_ctl 233 21  epoll_pwait 281 22  epoll_pwait2 441 441  epoll_wait 232 -  eventfd 284 -  eventfd2 290 19
    execve 59 221  execveat 322 281  exit 60 93  exit_group 231 94  faccessat 269 48  faccessat2 439 439
    fadvise64 221 223  fallocate 285 47  fanotify_init 300 262  fchdir 81 50  fchmod 91 52  fchmodat 268 53
    fchmodat2 452 452  fchown 93 55  fchownat 260 54  fcntl 72 25  fdatasync 75 83  fgetxattr 193 10
    finit_module 313 273  flistxattr 196 13  flock 73 32  fork 57 -  fremovexattr 199 16  fsetxattr 190 7
    fstat 5 80  fstatfs 138 44  fsync 74 82  ftruncate 77 46  futex 202 98  futex_requeue 456 456
    futex_wait 455 455  futex_waitv 449 449  futex_wake 454 454  futimesat 261 -  getcpu 309 168  getcwd 79 17
    getdents 78 -  getdents64 217 61  getegid 108 177  geteuid 107 175  getgid 104 176  getgroups 115 158
    getitimer 36 102  getpeername 52 205  getpgid 121 155  getpgrp 111 -  getpid 39 172  getppid 110 173
    getpriority 140 141  getrandom 318 278  getresgid 120 150  getresuid 118 148  getrlimit 97 163  getrusage 98 165
    getsid 124 156  getsockname 51 204  getsockopt 55 209  gettid 186 178  gettimeofday 96 169  getuid 102 174
    getxattr 191 8  init_module 175 105  inotify_init 253 -  inotify_init1 294 26  io_uring_enter 426 426
    io_uring_register 427 427  io_uring_setup 425 425  ioctl 16 29  ioperm 173 -  iopl 172 -  ioprio_set 251 30
    kcmp 312 272  kexec_file_load 320 294  kexec_load 246 104  keyctl 250 219  kill 62 129
    landlock_restrict_self 446 446  lchown 94 -
    lgetxattr 192 9  link 86 -  linkat 265 37  listen 50 201  listxattr 194 11  llistxattr 195 12
    lremovexattr 198 15  lseek 8 62  lsetxattr 189 6  lstat 6 -  madvise 28 233  mbind 237 235  memfd_create 319 279
    migrate_pages 256 238  mkdir 83 -  mkdirat 258 34  mknod 133 -  mknodat 259 33  mlock 149 228  mlock2 325 284
    mlockall 151 230  mmap 9 222  modify_ldt 154 -  mount 165 40  move_pages 279 239  mprotect 10 226  mremap 25 216
    msync 26 227  munlock 150 229  munlockall 152 231  munmap 11 215  name_to_handle_at 303 264  nanosleep 35 101
    newfstatat 262 79  open 2 -  open_by_handle_at 304 265  openat 257 56  pause 34 -  perf_event_open 298 241
    personality 135 92  pidfd_getfd 438 438  pidfd_open 434 434  pidfd_send_signal 424 424  pipe 22 -  pipe2 293 59
    pivot_root 155 41  poll 7 -  ppoll 271 73  prctl 157 167  pread64 17 67  preadv 295 69  preadv2 327 286
    prlimit64 302 261  process_vm_readv 310 270  process_vm_writev 311 271  pselect6 270 72  ptrace 101 117
    pwrite64 18 68  pwritev 296 70  pwritev2 328 287  quotactl 179 60  read 0 63  readahead 187 213  readlink 89 -
    readlinkat 267 78  readv 19 65  reboot 169 142  recvfrom 45 207  recvmmsg 299 243  recvmsg 47 212
    removexattr 197 14  rename 82 -  renameat 264 38  renameat2 316 276  request_key 249 218
    restart_syscall 219 128  rmdir 84 -  rseq 334 293  rt_sigaction 13 134  rt_sigpending 127 136
    rt_sigprocmask 14 135  rt_sigqueueinfo 129 138  rt_sigreturn 15 139  rt_sigsuspend 130 133
    rt_sigtimedwait 128 137  rt_tgsigqueueinfo 297 240  sched_get_priority_max 146 125
    sched_get_priority_min 147 126  sched_getaffinity 204 123  sched_getattr 315 275  sched_getparam 143 121
    sched_getscheduler 145 120  sched_rr_get_interval 148 127  sched_setaffinity 203 122  sched_setattr 314 274
    sched_setparam 142 118  sched_setscheduler 144 119  sched_yield 24 124  seccomp 317 277  select 23 -
    sendfile 40 71  sendmmsg 307 269  sendmsg 46 211  sendto 44 206  set_mempolicy 238 237  set_robust_list 273 99
    set_tid_address 218 96  setdomainname 171 162  setgid 106 144  setgroups 116 159  sethostname 170 161
    setitimer 38 103  setns 308 268  setpgid 109 154  setpriority 141 140  setregid 114 143  setresgid 119 149
    setresuid 117 147  setreuid 113 145  setrlimit 160 164  setsid 112 157  setsockopt 54 208  settimeofday 164 170
    setuid 105 146  setxattr 188 5  shutdown 48 210  sigaltstack 131 132  signalfd 282 -  signalfd4 289 74
    socket 41 198  socketpair 53 199  stat 4 -  statfs 137 43  statx 332 291  swapoff 168 225  swapon 167 224
    symlink 88 -  symlinkat 266 36  sync 162 81  sync_file_range 277 84  syncfs 306 267  sysinfo 99 179
    syslog 103 116  tgkill 234 131  time 201 -  timer_create 222 107  timerfd_create 283 85  timerfd_gettime 287 87
    timerfd_settime 286 86  times 100 153  tkill 200 130  truncate 76 45  umask 95 166  umount2 166 39  uname 63 160
    unlink 87 -  unlinkat 263 35  unshare 272 97  userfaultfd 323 282  utime 132 -  utimensat 280 88  utimes 235 -
    vfork 58 -  vhangup 153 58  wait4 61 260  waitid 247 95  write 1 64  writev 20 66
"""


def _parse_numbers(column: int) -> dict[str, int]:
    cells = _TABLE.split()
    pairs = zip(cells[::3], cells[column::3], strict=True)
    return {name: int(number) for name, number in pairs if number != "-"}


NUMBERS = {"x86_64": _parse_numbers(1), "aarch64": _parse_numbers(2)}  # machine (as in uname) -> name -> number
