"""What a run leaves: reports/STUDY-DATE with its raw lines, the machine, and the pages drawn from them."""

import shutil
import time

from bench_common import ROOT
from studies.report import html
from studies.report.studies import STUDIES


def archive(name, source):
    """Copies the CSV and JSON files of a study, and draws its report beside them. Nothing without lines."""
    if not any(source.glob("*.csv")):
        return None
    size = "-quick" if source.parent.name == "quick" else ""
    target = ROOT / "reports" / f"{name}{size}-{time.strftime('%Y%m%d-%H%M%S')}"
    target.mkdir(parents=True)
    for path in [*source.glob("*.csv"), *source.glob("*.json")]:
        shutil.copy(path, target)
    draw, _ = STUDIES[name]
    draw(source, target)
    html.write(target, [name])
    print(f"raw lines and report: {target.relative_to(ROOT)}/report.html", flush=True)
    return target
