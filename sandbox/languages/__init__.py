"""Languages, one file each. The file's name is the language's name in Program.

A language is two functions that run inside the jail, in a child forked for one run, never in a trusted process:
    compile_source(source) -> artifact    called once for a submission; raises SyntaxError with what is wrong
    execute(artifact, source)             becomes the program; its return is the program's exit status
"""
