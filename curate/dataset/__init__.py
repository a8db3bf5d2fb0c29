"""A dataset on disk: how it is written, read, continued, described, compared and published."""
