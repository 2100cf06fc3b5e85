"""Result folders that somebody has tampered with, one for every seed."""

import hashlib
import io
import json
import random
import shutil
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from faces import discovery
from promise import CODE, check

from odediscovery import TimeSeries, discover, fit_constants, settings_for, simulate_system, with_controls
from odediscovery.result.folder import OWN

VALUES = (
    *(None, True, False, 0, -1, 1, 2**62, -(2**63), 10**400, 1e308, -1e308, 1e-320, 0.5),
    *("", " ", "x", "S", "t", "nan", "1e999", CODE, "<script>alert(1)</script>", "\x1b[31mred", "\x9b2J"),
    *("a\nimport os", "=# end #=", "\\input{x}", "\u202egnp", "\ud800", "9**9**9", "S**999999", "(" * 500),
    *("x" * 100_000, [], {}, [[]], [None], [1, 2, 3], {"a": 1}, [[[[]]]], ["S", "S"], [float("nan")]),
)


# The first seeds, the samples of `make test`, take none of groups, whose fit takes as long as all others together.
NAMES = ("old", "hand", "runs", "fitted", "fed", "groups")


@cache
def whole(name):
    """A result to tamper with: by hand, fitted, of several runs, with an input, of groups, of the first version."""
    times, starts = np.linspace(0.0, 8.0, 30), np.array([0.05, 0.1, 0.2])
    fed = TimeSeries.from_arrays(times, np.column_stack([5.0 - 4.0 * np.exp(-times), np.ones(30)]), ["x", "feed"])
    wells = [1.0 / (1.0 + (1.0 / x - 1.0) * np.exp(-r * times)) for x, r in zip(starts, (0.8, 1.0, 1.3), strict=True)]
    groups = TimeSeries.from_arrays([times] * 3, wells, ["n"], labels=["a", "b", "c"])
    made = {
        "groups": lambda: fit_constants(groups, "n' = r*n - q*n^p", settings_for(vary="r,q")),
        "hand": lambda: discovery(hidden=6),
        "runs": lambda: discovery(runs=3),
        "fitted": lambda: discover(simulate_system("logistic", noise=0.01), settings_for(library=("textbook",))),
        "fed": lambda: fit_constants(with_controls(fed, held=["feed"]), "x' = a*feed - b*x"),
    }
    if name not in made:
        return Path(__file__).parents[1] / "files" / "torricelli_0.1.0"
    folder = Path(mkdtemp(prefix="hostile-")) / name
    made[name]().save(folder)
    return folder


def copied(pick):
    """A whole folder, to be tampered with, under the current one."""
    return Path(shutil.copytree(whole(pick.choice(NAMES)), "found"))


def signed(folder):
    """Give every file the hash that it has now, so that its reader sees it."""
    path = folder / "result.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    if "files" in document:
        files = [file for file in folder.iterdir() if file.name in OWN and file != path]
        document["files"] = {f.name: f"sha256:{hashlib.sha256(f.read_bytes()).hexdigest()}" for f in files}
        path.write_text(json.dumps(document), encoding="utf-8")


def use(folder, pick, report=0.1):
    """Whatever is in the folder, every command keeps its promise."""
    code, _ = check(["show", str(folder), "--format", pick.choice(("text", "latex", "python", "julia", "json"))])
    check(["predict", str(folder), *pick.choice(([], ["--intervals"], ["--until", "12"]))])
    if code == 0 and pick.random() < report:
        check(["report", str(folder)])


def altered(value, pick):
    """A document with one of its values replaced, dropped or doubled."""
    if isinstance(value, dict) and value and pick.random() < 0.985:
        key = pick.choice(sorted(value))
        change = pick.random()
        if change < 0.02:
            return {k: v for k, v in value.items() if k != key}
        if change < 0.04:
            return {(str(pick.choice(VALUES)) if k == key else k): v for k, v in value.items()}
        return {k: altered(v, pick) if k == key else v for k, v in value.items()}
    if isinstance(value, list) and value and pick.random() < 0.97:
        at = pick.randrange(len(value))
        change = pick.random()
        if change < 0.03:
            return value[:at] + value[at + 1 :]
        if change < 0.06:
            return value[: at + 1] + value[at:]
        return [altered(v, pick) if k == at else v for k, v in enumerate(value)]
    if isinstance(value, float) and pick.random() < 0.6:
        return value * pick.choice((-1.0, 0.0, 1e-300, 1e300, 2.0))
    if isinstance(value, str) and pick.random() < 0.6:
        at = pick.randrange(len(value) + 1)
        return value[:at] + pick.choice(("0", "9" * 30, "*", "-", " ", "\x1b", "x", "(", "é", "\n", ".")) + value[at:]
    return pick.choice(VALUES)


def tampered_document(seed):
    """`result.json` with one to three other values."""
    pick = random.Random(seed)
    folder = copied(pick)
    path = folder / "result.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    for _ in range(pick.randint(1, 3)):
        document = altered(document, pick)
    path.write_text(json.dumps(document), encoding="utf-8")
    use(folder, pick, report=0.15)


def damaged(content, pick):
    """Bytes cut off, flipped, inserted, doubled."""
    for _ in range(pick.randint(1, 4)):
        at = pick.randrange(len(content) + 1)
        piece = bytes(pick.randrange(256) for _ in range(pick.choice((1, 2, 8))))
        content = pick.choice(
            (
                content[:at],
                content[:at] + piece + content[at:],
                content[:at] + piece + content[at + len(piece) :],
                content[at:],
                content + content,
                b"",
            )
        )
    return content


def damaged_file(seed):
    """Any file of the folder with damage to its bytes, its hash as it was or as it is."""
    pick = random.Random(seed)
    folder = copied(pick)
    path = folder / pick.choice(("result.json", "model.npz", "covariance.npz", "data.csv", "log.jsonl"))
    path.write_bytes(damaged(path.read_bytes(), pick))
    if path.name != "result.json" and pick.random() < 0.7:
        signed(folder)
    use(folder, pick)


def _npy(array, pick):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=True)
    content = stream.getvalue()
    if pick.random() < 0.3:
        shape = str(np.shape(array)).encode()
        lie = pick.choice((b"(-1,)", b"(9999999999999,)", b"(2, -3)", b"()", b"(0,)", b"(4294967296, 4294967296)"))
        content = content.replace(shape, lie.ljust(len(shape)), 1)
    return content


def tampered_archive(seed):
    """`model.npz` or `covariance.npz` with other arrays: nan, other shapes and kinds, none, compressed."""
    pick = random.Random(seed)
    folder = copied(pick)
    path = folder / pick.choice(("model.npz", "covariance.npz"))
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    changes = [
        lambda a: a * np.nan,
        lambda a: a * 1e308 * 10.0,
        lambda a: -a,
        lambda a: a * 0,
        lambda a: a[..., :-1],
        lambda a: np.concatenate([a, a]),
        lambda a: a.astype(complex),
        lambda a: a.astype("S8"),
        lambda a: np.array([{"evil": 1}], dtype=object),
        lambda a: np.zeros((0, 3)),
        lambda a: np.zeros(10**6),
        lambda a: a[None],
    ]
    for _ in range(pick.randint(1, 3)):
        name = pick.choice(sorted(arrays))
        if arrays[name].dtype.kind == "U":
            words = altered(json.loads(str(arrays[name])), pick)
            arrays[name] = np.array(json.dumps(words))
        else:
            with np.errstate(all="ignore"):
                try:
                    arrays[name] = pick.choice(changes)(arrays[name])
                except (TypeError, ValueError, IndexError):
                    del arrays[name]
        if not arrays:
            break
    way = zipfile.ZIP_DEFLATED if pick.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", way) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", _npy(array, pick))
    signed(folder)
    use(folder, pick, report=0.25)


def tampered_lines(seed):
    """`data.csv` or `log.jsonl` with other cells and lines, signed."""
    pick = random.Random(seed)
    folder = copied(pick)
    path = folder / pick.choice(("data.csv", "data.csv", "log.jsonl"))
    lines = path.read_text(encoding="utf-8").split("\n")
    for _ in range(pick.randint(1, 5)):
        row = pick.randrange(len(lines))
        value = pick.choice(VALUES)
        text = str(value).encode(errors="replace").decode()
        if path.name == "data.csv":
            cells = lines[row].split(",")
            cells[pick.randrange(len(cells))] = pick.choice((text, "", "1e999", "-1e308", "nan", "1e300"))
            lines[row] = ",".join(cells)
        else:
            lines[row] = pick.choice((text, json.dumps(value) if value != float("nan") else "", "[" * 300_000, "{"))
    path.write_text("\n".join(lines), encoding="utf-8")
    signed(folder)
    use(folder, pick)
