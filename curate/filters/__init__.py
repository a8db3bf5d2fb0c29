"""The filters, one file for each reason to drop a problem. A filter returns a fixed word, or None to keep the problem.

few_tests       too few distinct tests
image           needs a picture
interactive     needs another program that answers
no_reference    no solution was ever seen to pass
no_statement    no words to read
wrong_language  no solution is in a language that may be executed
"""
