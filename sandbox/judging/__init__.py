"""The judge of a worker: it runs a suite's cases in zygotes, compares outputs, and decides verdicts. It is trusted.

Begin with worker.py, which handles one request at a time, and runner.py, which executes one run.

    channel, message_codec            requests from the caller, and responses
    worker                            judges a submission, case by case
    call_runner, assertion_runner,    run the cases of each kind of suite
    interactive
    runner, compiler, run_files       execute runs in zygotes (jail/)
    referee_validation, check_cache   decide if the suite or the submission is at fault
"""
