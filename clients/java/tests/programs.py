"""Writes programs of the documentation's Java: `programs.py readme FOLDER` (Example.java) or `programs.py page FOLDER` (Page.java)."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
PAGE = HERE.parents[1] / "docs/how-to/clients-java.md"


def blocks(path):
    return re.findall(r"^```java\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def page():
    """All blocks of the page in one method."""
    tasks = re.findall(r"^## (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.M)
    assert tasks == [str(number) for number in range(1, 13)], tasks
    imports, *statements = blocks(PAGE)
    assert len(statements) == 12, f"{len(statements)} blocks of 12 tasks"
    ended = 'if (ended.getState() != RunState.RUN_STATE_SUCCEEDED || report.getContent().isEmpty()) {\nthrow new AssertionError(ended);\n}\n'
    said = f'client.close();\nSystem.out.println("clients-java.md: {len(statements)} blocks ran");\n'
    return f"{imports}\npublic final class Page {{\npublic static void main(String[] arguments) throws Exception {{\n{''.join(statements)}{ended}{said}}}\n}}\n"


what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
name, program = ("Example.java", blocks(HERE / "README.md")[0]) if what == "readme" else ("Page.java", page())
(folder / name).write_text(program, encoding="utf-8")
