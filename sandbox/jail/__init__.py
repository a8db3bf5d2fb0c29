"""One worker: two trusted processes outside, a warm zygote inside an isolated environment, and one fresh child per run.

    worker     two processes. The judge (worker.py) holds the suite, reads and compares the outputs of programs, and
               decides verdicts; it is unprivileged. The warden (warden.py) has its caller's privileges. It starts
               zygotes (spawn.py), owns their cgroups (cgroups.py), and interprets no data of programs.
      zygote   (zygote.py)  trusted, pid 1 in its own user, pid, mount, net, ipc and uts namespaces. Its root is a copy
                            of the interpreter and its libraries in memory (image.py, rootfs.py). A seccomp filter
                            (seccomp.py) applies to it, but a key exempts its own calls (syscall_key.py); the filter
                            notifies it of some calls of programs (seccomp_notify.py). The usual standard library is
                            preloaded. It never sees an expected output. No data of a run passes through its memory,
                            which all later runs inherit. Referees and compilers have separate zygotes.
        init   a sleeping stub: pid 1 of the pid namespace of one run. Killing it kills the run's whole tree.
               It shares the zygote's memory and costs next to nothing.
        child  (child.py)   forked for one run into its own workspace (workspace.py): pid namespace, fresh /tmp and
                            /proc. It reads the program, sets its limits, drops its capabilities, changes to another
                            uid where one is available, destroys its copy of the key and becomes the program.

The runs of a zygote share its mount, network, ipc and uts namespaces, one after another. No run may change them;
objects that would outlive a run are denied (ipc objects) or removed with it (mounts).

That is the level `namespaces`. Where a machine lacks it, the level is `landlock` (landlock.py, confinement.py): the
zygote stays in the machine's namespaces, and each child enters its own Landlock domain before it becomes the program.
Whatever Landlock does not cover is denied by the filter (seccomp.py) or decided by the zygote (seccomp_notify.py). The
zygote is the subreaper of its runs: it counts their forks and kills their trees (process_tree.py). If the caller is
root, the zygote has its own root directory, and programs their own uid. The level `none` lacks the domain.

The program gets three files, stdin, stdout and stderr: memfds that the judge creates, reopens for the program, and
reads after its exit. A call also gets a file for the encoded return value. The verdict depends only on these files, the
wait status and the cgroup's counters (run_classification.py), never on claims of the program.

Not covered: bugs in the kernel, side channels through timing or caches, and rowhammer. Programs that may carry a kernel
exploit belong on a dedicated, disposable machine.

The judge and the warden:
    worker.py               the judge: executes requests for runs and judgements
    runner.py               runs programs in zygotes and retries lost runs
    run_spec.py             the parameters of runs
    run_files.py            the files of one run: opens them, passes them to the zygote, reads and closes them
    run_classification.py   the outcome of a run, from measurements
    compiler.py             compiles programs, in the sandbox like any run
    compile_cache.py        caches compilations
    interactive.py          connects a program with an interactive referee
    call_runner.py          runs a program for call tests, several per run if that cannot change a verdict
    assertion_runner.py     runs a program for Python tests
    referee_validation.py   runs a failed referee on trusted outputs, to decide whether the suite is at fault
    zygote_client.py        the judge's connection to a zygote
    zygote_pool.py          the zygotes of one runner, and their cgroup
    channel.py              messages between a worker and its caller
    message_codec.py        encoding of these messages; decodes those from a worker strictly
    worker_config.py        the configuration of a worker
    warden.py               the warden, and the judge's connection to it
    spawn.py                starts a zygote in its namespaces
    cgroups.py              limits on memory, processes and processor time, by cgroup v1 or v2
    delegation.py           finds the parent of new cgroups
    confinement.py          directories and roots of runs without namespaces
    isolation_diagnosis.py  the settings of this machine that prevent a level of isolation
    stale_resources.py      finds and removes resources of killed owners
The file system of programs:
    image.py                makes it, as a copy in memory or in a folder
    rootfs.py               makes that image the root of a zygote
Inside:
    zygote.py               forks, times and reaps one child for each run
    child.py                turns a forked child into the program
    workspace.py            the pid namespace, /tmp, /proc and source file of one run
    files.py                copies files into and out of that workspace
    process_tree.py         resource usage and killing of a run's processes
    directories.py          empties directories of programs
System calls:
    linux.py                wrappers for system calls that the standard library lacks
    landlock.py             Landlock rulesets of runs
    system_calls.py         lists of allowed and denied system calls, with reasons
    seccomp.py              compiles these lists to a seccomp filter
    syscall_key.py          the key by which the zygote's calls pass the filter
    seccomp_notify.py       the zygote's responses to seccomp notifications
"""
