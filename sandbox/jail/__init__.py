"""One worker: a trusted process outside, a warm zygote inside namespaces, and one fresh child for each run.

    worker     (worker.py)  trusted, outside. Holds the suite, compares, gives verdicts. Owns the cgroup.
      zygote   (zygote.py)  trusted, pid 1 inside its own user, pid, mount, net, ipc and uts namespaces, with a
                            read-only root (rootfs.py) and a seccomp filter (seccomp.py). Warm: the interpreter
                            and the usual standard library are loaded. Never sees expected outputs.
        init   a stub that only sleeps: pid 1 of the pid namespace of one run. Killing it kills the run's
               whole tree at once. It shares the zygote's memory and costs next to nothing.
        child  (child.py)   forked for one run into a place of its own (place.py): pid namespace, fresh /tmp and
                            /proc. Limits set, capabilities gone, another uid where there is one to give; then it
                            becomes the program.

The mount, network, ipc and uts namespaces are the zygote's and shared by its runs, one after another. None of them
may be changed by a run, and what would outlive one in them is refused (ipc objects) or taken away with it (mounts).

What the program gets are three files: stdin, stdout, stderr (memfds made by the worker, read after its death).
For a call it also gets one file for the encoded return value. The verdict is made of those files, the wait
status and the cgroup's counters; nothing the program says about itself counts.

Not covered: a bug of the kernel, side channels through timing or caches, and rowhammer. Programs that may carry
a kernel exploit belong on a machine that may be lost.
"""
