"""Long fuzzing by hand: ``python -m tests.core.reading.fuzz_long 100000`` tries 100,000 files of all formats."""

import random
import sys
import tempfile
import warnings
from pathlib import Path

from tests.core.reading.test_fuzz import SEEDS, WORDS, tried


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a file after up to six changes, of the kinds of `test_fuzz.damaged`."""
    changed = bytearray(content)
    for _ in range(rng.randrange(7)):
        start = rng.randrange(len(changed) + 1)
        stop = min(len(changed), start + rng.randrange(40))
        what = rng.randrange(6)
        if what == 0:
            changed[start:stop] = rng.randbytes(rng.randrange(16))
        elif what == 1:
            del changed[start:stop]
        elif what == 2:
            changed[start:start] = changed[start:stop] * rng.randrange(1, 50)
        elif what == 3:
            changed[start:stop] = rng.choice(WORDS)
        elif what == 4 and start < len(changed):
            changed[start] ^= 1 << rng.randrange(8)
        elif what == 5 and rng.random() < 0.3:
            del changed[start:]
    return bytes(changed)


def main(count: int) -> None:
    """Try `count` files, the same share of each format; stop at the first that is neither read nor refused."""
    warnings.simplefilter("ignore")
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, (ending, read, seeds) in SEEDS.items():
            path, taken = Path(folder) / f"a{ending}", 0
            for _ in range(count // len(SEEDS)):
                content = mutated(rng.choice(seeds), rng)
                try:
                    taken += tried(read, path, content)
                except BaseException:
                    Path(f"failing{ending}").write_bytes(content)
                    raise
            sys.stdout.write(f"{name}: {count // len(SEEDS)} files, {taken} read\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
