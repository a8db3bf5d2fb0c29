"""Ways in which sources write tests down, one file each: `read(encoded, ...)` gives Parsed, or raises Unparsable."""
