"""One worker: a trusted process outside, a warm zygote inside namespaces, and one fresh child for each run.

    worker     two processes. The judge (worker.py) holds the suite, reads what programs have written, compares and
               gives verdicts; it has no privileges. The warden (warden.py) has its caller's: it starts zygotes
               (spawn.py) and owns their cgroups (cgroups.py), and looks at nothing that a program has made.
      zygote   (zygote.py)  trusted, pid 1 inside its own user, pid, mount, net, ipc and uts namespaces. Its root is
                            a copy of the interpreter and its libraries in memory (image.py, rootfs.py). It has a
                            filter of system calls (seccomp.py), to which it has a key (key.py) and which leaves some
                            calls of programs to it (asked.py). Warm: the usual standard library is loaded. It never
                            sees an expected output, and nothing of a run passes through its memory, which all later
                            runs inherit. Referees and compilers have zygotes of their own.
        init   a stub that only sleeps: pid 1 of the pid namespace of one run. Killing it kills the run's
               whole tree at once. It shares the zygote's memory and costs next to nothing.
        child  (child.py)   forked for one run into a place of its own (place.py): pid namespace, fresh /tmp and
                            /proc. It reads the program; limits set, capabilities gone, another uid where there is
                            one to give, it throws the key away and becomes the program.

The mount, network, ipc and uts namespaces are the zygote's and shared by its runs, one after another. None of them
may be changed by a run, and what would outlive one in them is refused (ipc objects) or taken away with it (mounts).

What the program gets are three files: stdin, stdout, stderr (memfds made by the judge, opened anew for the program,
read after its death). For a call it also gets one file for the encoded return value. The verdict is made of those
files, the wait status and the cgroup's counters (outcome.py); nothing the program says about itself counts.

Not covered: a bug of the kernel, side channels through timing or caches, and rowhammer. Programs that may carry
a kernel exploit belong on a machine that may be lost.
"""
