#!/usr/bin/env python3
"""usage: hostile.py STOPLOG hostile.tsv — published attacks on log parsers, line by line.

Each row names the only addresses that may be blamed (A|B, or NONE); every
line is parsed on its own."""
import json
import subprocess
import sys

binary, path = sys.argv[1:3]
bad = total = 0
for row in open(path, encoding="utf-8").read().splitlines()[1:]:
    ident, _, expected, line = row.split("\t", 3)
    may = {w.strip() for w in expected.split("(")[0].split(";")[0].split("|")}
    out = subprocess.run([binary, "parse", "--json"], input=line + "\n", capture_output=True, text=True, timeout=20).stdout
    got = {e["ip"] for e in map(json.loads, out.splitlines()) if e.get("outcome") == "failure" and e.get("ip")}
    total += 1
    if got - may or (not got and "NONE" not in may):
        bad += 1
        print(f"{ident}: want {expected}, got {sorted(got) or 'NONE'}: {line}")
print(f"hostile lines right: {total - bad}/{total}")
sys.exit(bad > 0)
