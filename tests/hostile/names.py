"""Five hundred hostile names of columns, in sets of three, and what is printed of the accepted ones."""

import csv
import io
import keyword
import random
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from faces import discovery
from promise import CODE, CONTROLS, check

from odediscovery import Discovery, InputError, load_csv, write_csv
from odediscovery.laws.power_sum import PowerSum

COUNT = 500
_PIECES = (
    *(CODE, "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "]]>", "<!--", "-->"),
    *("\\input{/etc/passwd}", "\\write18{ls}", "\\end{align}", "$x$", "a%b", "x^y", "~", "#1", "{", "}", "\\", "^^M"),
    *("#= =#", '"""', "'''", "${x}", "$(ls)", "`ls`", "; rm -rf .", "| cat", "../../x", "/", "NUL", "%s%n", "{0}"),
    *("{{ 7*7 }}", "{% x %}", "\x1b[2J", "\x9b31m", "\x07", "\x00", "\x7f", "\x85", "a\nb", "a\tb", "a\rb", "\u2028"),
    *("\u202egnp", "\u2066x\u2069", "\u200b", "\ufeff", "\ud800", "\U0001f600", "e\u0301", "\u0301", "ﬁ", "µ", "μ"),
    *("ɛ", "ε", "·", "⋅", "−", "℘", "゛", "𝐱", "ß", "İ", "ı", "٣", "x²", "heart rate", " x", "x ", "", " ", "_", "__"),
    *("S;I", "a,b", '"', "'", 'a"b', "a'b", "=1+1", "@x", "+x", "-x", "1", "1e5", "0x1", "nan", "inf", "NA", "t", "T"),
    *("du", "u", "p", "np", "rates", "y", "Base", "isa", "in", "end", "pi", "e", "I", "E", "N", "S", "trajectory"),
    *("x1", "x_1", "x1_2", "x_1_2_3", "x__1", "1_2", "_1", "lambda", "None", "True", "__debug__", "self", "sin", "exp"),
    *(*keyword.kwlist, "x" * 999, "x" * 1001, "é" * 400, "Sum_{i}", "k_{on}", "α", "Ω", "dx/dt", "x'", "x''", "[A]"),
)


def all_names():
    """The pieces, and pairs of them until there are enough."""
    pick, names = random.Random(0), list(dict.fromkeys(_PIECES))
    while len(names) < COUNT:
        pair = pick.choice(_PIECES)[:200] + pick.choice(("", " ", "_", "\n", ".")) + pick.choice(_PIECES)[:200]
        if pair not in names:
            names.append(pair)
    return names[:COUNT]


def named_set(seed):
    """Three of the names, each name in some set of the first 167."""
    names = all_names()
    return names[3 * seed % COUNT], names[(3 * seed + 1) % COUNT], names[(3 * seed + 2) % COUNT]


def is_accepted(name):
    """Whether a name may stand alone in a series."""
    try:
        discovery(PowerSum(np.array([[-0.3]]), np.ones((1, 1))), (name,), until=5.0, samples=8, initial=(1.0,))
    except InputError:
        return False
    return True


def hostile_names(seed):
    """Accepted names come back from a folder, and everything printed of them is what it should be."""
    names = tuple(dict.fromkeys(name for name in named_set(seed) if is_accepted(name)))
    for name in set(named_set(seed)) - set(names):
        refused_at_the_door(name)
    if not names:
        return
    n = len(names)
    law = PowerSum(np.diag(np.full(n, -0.3)) + np.diag(np.full(n - 1, 0.25), -1), np.eye(n) * np.linspace(0.5, 1.5, n))
    before = discovery(law, names, until=5.0, samples=8, initial=(1.0,) * n, runs=2)
    before.save("found")
    after = Discovery.load("found")
    assert after.equations.states == names and after.equations.texts() == before.equations.texts()
    write_csv(before.series, "data.csv")
    assert load_csv("data.csv", group="trajectory" if "trajectory" not in names else "trajectory_").states == names
    rates = before.equations.power_sum.rhs(np.full((1, n), 0.7))[0]
    np.testing.assert_allclose(python_rates(check(["show", "found", "--format", "python"])[1], n), rates, rtol=1e-12)
    np.testing.assert_allclose(julia_rates(check(["show", "found", "--format", "julia"])[1], n), rates, rtol=1e-12)
    check_latex(check(["show", "found", "--format", "latex"])[1])
    check(["show", "found", "--format", "json"])
    check(["show", "found"])
    check(["predict", "found"])
    if seed:  # a page of the first ones is made by every test run, in test_report.py
        check(["report", "found"])
        check_page(Path("found/report.html").read_text(encoding="utf-8"))


def refused_at_the_door(name):
    """A table whose header has the name is read under a cleaned one, or refused in one line."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(["time", "other", name])
    text = stream.getvalue() + "".join(f"{k},{k * k},1\n" for k in range(5))
    Path("named.csv").write_bytes(text.encode(errors="surrogatepass"))
    try:
        series = load_csv("named.csv")
    except InputError as error:
        assert "\n" not in str(error) and CONTROLS.search(str(error)) is None and len(str(error)) < 500
    else:
        assert CONTROLS.search("".join(series.states)) is None


def python_rates(source, n):
    """What the printed function computes at 0.7, run as a stranger would run it."""
    place = {}
    exec(compile(source, "rates.py", "exec"), place)  # what a person does with it
    return place["rates"](0.0, np.full(n, 0.7))


# An identifier of both languages: letters, marks, digits and underscores, no operator of Julia.
_TOKEN = re.compile(r"\s+|Base\.\w+|\d+(\.\d+)?(e[+-]?\d+)?|[^\s\d+*/^()-][^\s+*/^()-]*|[-+*/^()]")


def julia_rates(source, n):
    """What the printed Julia function computes at 0.7, by a grammar of the lines that it may have."""
    first, unpacked, *rows, nothing, last = source.rstrip("\n").split("\n")
    assert (first, nothing, last) == ("function rates!(du, u, p, t)", "    return nothing", "end")
    left, sign, right = unpacked.strip().rpartition(" = ")
    names = [name.strip() for name in left.strip(",").split(",")]
    assert sign and right == "u" and len(set(names)) == n
    for name in names:
        assert name.isidentifier() and name.strip("_"), name
        assert name not in ("isa", "in", "where", "outer", "end", "du", "u", "p", "t", "Base"), name
        assert all(unicodedata.category(c)[0] in "LMN" or c == "_" for c in name), name
        assert name == unicodedata.normalize("NFC", name) and "\u025b" not in name, name
    found = []
    for k, row in enumerate(rows, start=1):
        side = row.removeprefix(f"    du[{k}] = ").partition("  # d/dt of ")[0]
        at = 0
        while at < len(side):
            token = _TOKEN.match(side, at)
            assert token, side[at : at + 20]
            at = token.end()
        values = dict.fromkeys(names, 0.7)
        found.append(eval(side.replace("^", "**"), {}, values))  # tokens were checked above
    return found


def check_latex(text):
    """Balanced braces, known commands, no character that ends a line's meaning, one subscript a nucleus."""
    assert text.startswith("\\begin{align}\n") and text.endswith("\n\\end{align}\n")
    for row in text.split("\n")[1:-2]:
        body, depth, at = row.removesuffix(" \\\\"), 0, 0
        for token in re.finditer(r"\\[A-Za-z]+\d*|\\.|.", body):
            piece = token[0]
            depth += {"{": 1, "}": -1}.get(piece, 0)
            assert depth >= 0 and piece not in ("%", "$", "#", "~"), body[:80]
            at = token.end()
        assert depth == 0 and at == len(body) and body.count("&") - body.count("\\&") == 1, body[:80]
        commands = set(re.findall(r"\\([A-Za-z]+)", body))
        known = "frac mathrm left right times backslash char hat sim"
        assert all(c in known.split() or _is_greek(c) for c in commands), commands
        assert not re.search(r"_\{\d+\}_", body), body[:80]


def _is_greek(word):
    kind = "CAPITAL" if word[0].isupper() else "SMALL"
    try:
        unicodedata.lookup(f"GREEK {kind} LETTER {word.upper().replace('LAMBDA', 'LAMDA')}")
    except KeyError:
        return False
    return True


class _Page(HTMLParser):
    """What a browser would run or load."""

    def __init__(self):
        super().__init__()
        self.scripts, self.active = 0, list()

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.active += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.active += [tag] * (tag in ("img", "iframe", "object", "embed", "base", "form", "link"))
        loads = [v for name, v in attrs if name in ("src", "href", "xlink:href") and v and not v.startswith("#")]
        self.active += [f"{tag} loads {v[:40]}" for v in loads]


def check_page(text):
    """One script, its own, and nothing that a name made active."""
    page = _Page()
    page.feed(text)
    assert page.scripts == 1 and not page.active, (page.scripts, page.active)
    assert CONTROLS.search(text) is None
