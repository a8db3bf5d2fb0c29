"""One worker: two trusted processes outside, a warm zygote inside an isolated environment, and one fresh child per run.

    worker     two processes. The judge (worker.py) holds the suite, reads what programs have written, compares and
               gives verdicts; it has no privileges. The warden (warden.py) has its caller's: it starts zygotes
               (spawn.py) and owns their cgroups (cgroups.py), and looks at nothing that a program has made.
      zygote   (zygote.py)  trusted, pid 1 inside its own user, pid, mount, net, ipc and uts namespaces. Its root is
                            a copy of the interpreter and its libraries in memory (image.py, rootfs.py). It has a
                            filter of system calls (seccomp.py), to which it has a key (syscall_key.py) and which leaves
                            it to decide about some calls of programs (seccomp_notify.py). Warm: the usual standard
                            library is loaded. It never sees an expected output, and nothing of a run passes through
                            its memory, which all later runs inherit. Referees and compilers have zygotes of their own.
        init   a stub that only sleeps: pid 1 of the pid namespace of one run. Killing it kills the run's
               whole tree at once. It shares the zygote's memory and costs next to nothing.
        child  (child.py)   forked for one run into a workspace of its own (workspace.py): pid namespace, fresh /tmp
                            and /proc. It reads the program, sets its limits, drops its capabilities, takes another uid
                            where one is available, throws the key away and becomes the program.

The mount, network, ipc and uts namespaces are the zygote's and shared by its runs, one after another. No run may change
them; objects that would outlive a run are denied (ipc objects) or removed with it (mounts).

That is the level `namespaces`. Where a machine refuses it, the level is `landlock` (landlock.py, confinement.py): the
zygote stays in the machine's namespaces, and each child enters a Landlock domain of its own before it becomes the
program. What Landlock does not cover, the filter denies (seccomp.py) or the zygote decides (seccomp_notify.py). The
zygote is the subreaper of its runs: it counts their forks and ends their tree (process_tree.py). For root, the zygote
has a root directory of its own, and programs a user id. The level `none` is the same without the domain.

The program gets three files: stdin, stdout, stderr (memfds made by the judge, reopened for the program,
read after its death). For a call it also gets one file for the encoded return value. The verdict is made from those
files, the wait status and the cgroup's counters (run_classification.py); the program's own claims do not count.

Not covered: bugs in the kernel, side channels through timing or caches, and rowhammer. Programs that may carry a kernel
exploit belong on a dedicated, disposable machine.

The judge and the warden:
    worker.py               the judge: answers requests for runs and judgements
    runner.py               runs programs in zygotes and retries what the sandbox has lost
    run_spec.py             what a zygote does with an input
    run_files.py            the files of one run: opened, handed to its zygote, read and closed
    run_classification.py   decides how a run ended, from what was measured
    compiler.py             compiles programs, in the sandbox like any run
    compile_cache.py        keeps the results of compilations
    interactive.py          connects a program with an interactive referee
    call_runner.py          runs a program for tests that are calls, several in one run if that cannot change a verdict
    assertion_runner.py     runs a program for tests that are Python
    referee_validation.py   runs a failed referee on trusted outputs, to decide whether the suite is at fault
    zygote_client.py        the judge's connection to a zygote
    zygote_pool.py          the zygotes of one runner, and the cgroup that they and their runs are in
    channel.py              messages between a worker and the process that started it
    message_codec.py        these messages as bytes, of which those from a worker are decoded strictly
    worker_config.py        the configuration of a worker
    warden.py               the warden, and the judge's connection to it
    spawn.py                starts a zygote in its namespaces
    cgroups.py              limits on memory, processes and processor time, by cgroup v1 or v2
    delegation.py           finds the parent of new cgroups
    confinement.py          directories and roots of runs without namespaces
    isolation_diagnosis.py  the settings of this machine that prevent a level of isolation
    stale_resources.py      finds and removes resources of killed owners
What programs see:
    image.py                makes the file system of programs, a copy in memory or in a folder
    rootfs.py               makes that image the root of a zygote
Inside:
    zygote.py               forks, times and reaps one child for each run
    child.py                turns a forked child into the program
    workspace.py            the pid namespace, /tmp, /proc and source file of one run
    files.py                files on their way into and out of that workspace
    process_tree.py         usage and killing of a run's processes
    directories.py          empties directories that programs have filled
System calls:
    linux.py                the system calls that the standard library does not have
    landlock.py             makes the domain of Landlock that a run enters
    system_calls.py         lists which system calls programs may make, and why
    seccomp.py              makes a filter of these lists
    syscall_key.py          the key that lets the zygote's calls pass the filter
    seccomp_notify.py       answers the calls that the filter leaves to the zygote
"""
