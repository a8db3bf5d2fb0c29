"""Isolation of untrusted programs. A worker consists of two trusted processes outside, a warm zygote in an isolated
environment, and one fresh child per run.

    worker     two processes. The judge (judging/worker.py) is unprivileged; it holds the suite, compares the outputs of
               programs, and decides the verdicts. The warden (warden.py) has its caller's privileges. It starts zygotes
               (spawn.py), owns their cgroups (kernel/cgroups.py), and interprets no data of programs.
     zygote   (zygote.py)  trusted, pid 1 in its own user, pid, mount, net, ipc and uts namespaces. Its root is a copy
                           of the interpreter and its libraries in memory (image.py, spawn.py). A seccomp filter
                           (kernel/seccomp.py) applies to it, but a key exempts its own calls
                           (kernel/syscall_key.py). The filter notifies it of some calls of programs
                           (seccomp_notify.py). It preloads common modules of the standard library. It never receives
                           an expected output. No data of a run enters its memory, which all later runs inherit.
                           Referees and compilers have separate zygotes.
        init   a sleeping stub: pid 1 of the pid namespace of one run. SIGKILL to it kills all processes of the run.
               It shares the zygote's memory.
        child  (child.py)   a fork for one run in its own workspace (workspace.py): pid namespace, fresh /tmp and
                            /proc. It reads the program, sets limits, drops capabilities, changes its uid if possible,
                            destroys its copy of the key and becomes the program.

A zygote executes one run at a time. All its runs use its mount, network, ipc and uts namespaces, and cannot change
them. The filter denies ipc objects, which would outlive a run. The zygote unmounts the file systems of each run.

That is the level `namespaces`. On a machine that lacks it, the level is `landlock` (kernel/landlock.py,
confinement.py): the zygote stays in the machine's namespaces, and each child enters its own Landlock domain before it
becomes the program. The filter denies accesses that Landlock cannot restrict, or notifies the zygote
(seccomp_notify.py). The zygote is the subreaper of its runs: it counts their forks and kills their processes
(process_tree.py). If the caller is root, the zygote has its own root directory, and programs their own uid. The level
`none` is `landlock` without the domain.

The program gets three files, stdin, stdout and stderr: memfds that the judge creates, reopens for the program, and
reads after its exit. A call also gets a file for the encoded return value. The verdict depends only on these files, the
wait status and the cgroup's counters (run_classification.py).

Not covered: bugs in the kernel, side channels through timing or caches, and rowhammer. Programs that may carry a kernel
exploit belong on a dedicated, disposable machine.

To follow a request, begin with judging/worker.py and judging/runner.py. See zygote.py and child.py for the isolated
environment, and kernel/system_calls.py for the allowed system calls.
"""
