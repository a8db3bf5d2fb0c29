"""Languages, one file each. The file's name is the language's name in Program.

A language is three functions that run inside the jail, in a child forked for one run, never in a trusted process:
    compile_source(source, path) -> artifact             once for a submission; raises SyntaxError or ValueError
    run(artifact, path) -> int                           becomes the program; returns its exit status
    call(artifact, path, entry_point, returned) -> int   calls one function of it with the arguments on stdin and
                                                         writes the encoded value to descriptor `returned`
"""
