"""Read raw data in its published formats.

location          the location of a source with its options, and the files in a folder
tables            rows of files on disk or on the Hub, and their shards
text_files        the compression and the encoding of text
values            plain values from text in the sources' encodings
dialects/         the formats in which sources write tests
signature         checks of a test's arguments against its function
stated_limits     limits of a test, from the limits that a source states
solutions         the languages of solutions, and the solutions to execute
prompt_templates  the text of a problem, without the prompt template around it
"""
