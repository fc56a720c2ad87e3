"""One line of the result: samples, what they are compared with, the ratio, the target."""

import statistics


def spread(samples):
    return {
        "median": statistics.median(samples),
        "min": min(samples),
        "max": max(samples),
        "samples": list(samples),
    }


def number(value):
    """Three digits that say something."""
    if value >= 1e6:
        return f"{value / 1e6:.2f}M"
    if value >= 1e4:
        return f"{value / 1e3:.0f}k"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


class Line:
    """`ours` and `other` are samples of interleaved pairs, or `other` is one figure.

    Bounds: at_least / at_most of the ratio ours / other, or most of the value itself.
    """

    def __init__(self, what, unit, ours, other=None, other_name=None, **bounds):
        self.what = what
        self.unit = unit
        self.ours = spread(ours)
        self.other_name = other_name
        self.other = None
        self.ratio = None
        if other is not None:
            others = list(other) if isinstance(other, (list, tuple)) else [other] * len(ours)
            self.other = spread(others)
            self.ratio = spread([mine / its for mine, its in zip(ours, others)])
        self.bounds = bounds

    def target(self):
        texts = []
        if "at_least" in self.bounds:
            texts.append(f">= {self.bounds['at_least']}x")
        if "at_most" in self.bounds:
            texts.append(f"<= {self.bounds['at_most']}x")
        if "most" in self.bounds:
            texts.append(f"<= {number(self.bounds['most'])} {self.unit}")
        return ", ".join(texts)

    def reached(self):
        """None where there is no target."""
        if not self.bounds:
            return None
        return (
            ("at_least" not in self.bounds or self.ratio["median"] >= self.bounds["at_least"])
            and ("at_most" not in self.bounds or self.ratio["median"] <= self.bounds["at_most"])
            and ("most" not in self.bounds or self.ours["median"] <= self.bounds["most"])
        )

    def as_json(self):
        return {
            "what": self.what,
            "unit": self.unit,
            "topicfs": self.ours,
            "against": self.other_name,
            "other": self.other,
            "ratio": self.ratio,
            "target": self.target() or None,
            "reached": self.reached(),
        }

    def cells(self):
        def with_range(values, suffix=""):
            if values["min"] == values["max"]:
                return number(values["median"]) + suffix
            return (
                f"{number(values['median'])}{suffix} "
                f"({number(values['min'])}-{number(values['max'])})"
            )

        verdict = {None: "", True: "reached", False: "MISSED"}[self.reached()]
        return [
            self.what,
            f"{with_range(self.ours)} {self.unit}",
            f"{with_range(self.other)} {self.other_name}" if self.other else "",
            with_range(self.ratio, "x") if self.ratio else "",
            self.target(),
            verdict,
        ]


HEAD = ["what", "topicfs", "against", "ratio", "target", ""]


def table(lines):
    """A Markdown table, aligned for the terminal."""
    rows = [HEAD] + [line.cells() for line in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    texts = []
    for index, row in enumerate(rows):
        texts.append("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |")
        if index == 0:
            texts.append("| " + " | ".join("-" * w for w in widths) + " |")
    return "\n".join(texts)


def summary(lines):
    """The table for readers: medians, what they are compared with, the ratio."""
    texts = ["| what | topicfs | compared with | ratio |", "| --- | --- | --- | --- |"]
    for line in lines:
        other = ratio = ""
        if line.other:
            other = f"{number(line.other['median'])} {line.unit}: {line.other_name}"
            ratio = f"{number(line.ratio['median'])}"
        texts.append(
            f"| {line.what} | {number(line.ours['median'])} {line.unit} | {other} | {ratio} |"
        )
    return "\n".join(texts)


def update(path, text):
    """Puts the text between the marks in a document."""
    begin, end = "<!-- bench: begin -->\n", "<!-- bench: end -->"
    with open(path, encoding="utf-8") as file:
        document = file.read()
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{path} has no marks {begin.strip()} and {end}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + begin + text + "\n" + end + after)
