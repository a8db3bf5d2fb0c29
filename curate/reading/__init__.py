"""Read raw data in its published formats.

location          the value after NAME= in --source: a location and options; the files in a folder
tables            rows of files on disk or on the Hub, and shards of them
text_files        the compression and the encoding of text
values            plain values from text in the sources' encodings
dialects/         the formats in which sources write tests
signature         whether the arguments of a test fit its function
stated_limits     limits from a source's stated ones
solutions         the languages of solutions, and the solutions to execute
prompt_templates  the text of a problem in a prompt or a conversation, without the template around it
"""
