"""A dataset in parts, for `curate split`: no problem of one part is nearly the same as a problem of another.

    clusters    rows that are the same problem or have similar statements, found as in curate/dedup
    assignment  which clusters go into which part
    split       write each part as a dataset of its own

Each part has its own manifest, card and content hash, so every command that takes a dataset takes a part.
"""
