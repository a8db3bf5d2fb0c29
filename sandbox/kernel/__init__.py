"""Interfaces to the Linux kernel that isolate programs.

linux            wrappers for system calls that the standard library lacks
system_calls     the allowed and denied system calls, with reasons
seccomp          the filter of system calls
syscall_key      the key that exempts the zygote's own calls from the filter
landlock         rules for access to files, without namespaces
cgroups          limits and counters of one run
delegation       the parent cgroup of a worker's cgroups
directories      removal of a program's files
stale_resources  removal of what killed processes left
"""
