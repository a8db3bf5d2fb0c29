"""Readers of raw data in its published formats.

location          parsing of a source's location and options, and the files in a folder
tables            rows of files on disk or on the Hub, and their shards
text_files        the compression and the encoding of text
values            plain values from text in the sources' encodings
dialects/         the formats in which sources write tests
signature         the check that a test's arguments fit its function
stated_limits     limits of a test, from the limits that a source states
solutions         the languages of solutions, and the solutions to execute
prompt_templates  removal of the prompt template around the text of a problem
"""
