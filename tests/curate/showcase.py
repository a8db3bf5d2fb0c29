"""Raw rows for the reports: every stage removes some, and they contain near-duplicates and hostile text."""

from pathlib import Path

from source_rows import livecodebench_row, synthetic1_row, taco_row, words, write_jsonl, write_parquet

HOSTILE = "\x1b[31m\u202e<script>window.hacked = 1</script><svg onload='window.hacked = 1'> & co"


def near(seed: object, n_changed: int) -> str:
    """Return the statement of a seed, with the last `n_changed` of its 60 words replaced."""
    kept = words(seed).split()
    return " ".join([*kept[: len(kept) - n_changed], *(f"other{n}" for n in range(n_changed))])


def write(folder: Path) -> list[tuple[str, str]]:
    """Write the rows and return their (name, location) pairs. taco/0 and its duplicates are hostile."""
    rows = [taco_row(f"{HOSTILE} {words(0)}", name=HOSTILE, source="codeforces", url="https://example.org/0")]
    rows += [taco_row(words(n), name=f"Title {n}") for n in range(1, 14)]
    rows += [taco_row(words("a"), solutions=["print(0)"]), taco_row(words("b") + " <image>"), taco_row(words(1))]
    write_parquet(folder / "taco" / "train.parquet", rows)
    twins = [synthetic1_row(f"t{n}", near(n, n_changed=n % 5 + 1)) for n in range(1, 13)]
    twins.append(synthetic1_row("hostile", f"{HOSTILE} {near(0, 9)}"))
    write_parquet(folder / "synthetic1" / "train.parquet", [*twins, synthetic1_row("own", words("own"))])
    kept_and_twin = [livecodebench_row("1", words("l")), livecodebench_row("2", words(2))]
    write_jsonl(folder / "livecodebench" / "test.jsonl", kept_and_twin)
    return [(name, str(folder / name)) for name in ("taco", "synthetic1", "livecodebench")]
