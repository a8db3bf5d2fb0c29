"""Show a dataset folder through the package `datasets`:  python examples/show.py demo"""

import json
import sys

import datasets

folder = sys.argv[1]
datasets.disable_progress_bars()
kept = datasets.load_dataset(folder, split="train")
rejected = datasets.load_dataset(folder, "rejected", split="train")
print(f"\nload_dataset({folder!r}) opens {len(kept)} problems; {len(rejected)} more were rejected, for example:\n")
for row in rejected.select(range(0, len(rejected), 5)):
    print(f"  {row['id']:<28} {row['stage']}: {row['reason']}")
row = next(row for row in kept if row["verified"])
suite = json.loads(row["tests"])
print(f"\nOne that was kept, {row['id']}, with {len(suite['cases'])} tests, checker {suite['checker']}:\n")
print("  " + row["statement"].strip()[:300].replace("\n", "\n  ") + " ...")
print(f"\nMore about the dataset: {folder}/report.html, {folder}/README.md and {folder}/manifest.json")
