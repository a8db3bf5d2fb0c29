"""Read raw data as others published it.

location          the value after NAME= in --source: a place and options
tables            rows of files on disk or on the Hub
text_files        the compression and the encoding of text
arrow_files       record batches of streams and of files with an index
values            plain values from text in the sources' encodings
dialects/         the formats in which sources write tests
signature         whether the arguments of a test fit its function
stated_limits     limits from a source's own words
solutions         the languages of solutions, and the solutions to execute
chat              the text of a problem in a conversation
prompt_templates  statements without the prompts that collectors put around them
"""
