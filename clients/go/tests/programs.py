"""Writes programs of the documentation's Go: `programs.py readme FOLDER` or `programs.py page FOLDER`."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
PAGE = HERE.parents[1] / "docs/how-to/clients-go.md"


def blocks(path):
    return re.findall(r"^```go\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def page():
    """All blocks of the page in one function."""
    tasks = re.findall(r"^## (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.M)
    assert tasks == [str(number) for number in range(1, 13)], tasks
    imports, *statements = blocks(PAGE)
    assert len(statements) == 12, f"{len(statements)} blocks of 12 tasks"
    ended = 'if ended.GetState() != evalv1.RunState_RUN_STATE_SUCCEEDED || len(report.Content) == 0 {\nreturn errors.New("the page does not do what it says")\n}\n'
    return f"package main\n\n{imports}\nfunc tasks(ctx context.Context) error {{\n{''.join(statements)}{ended}return nil\n}}\n" + (
        "\nfunc main() {\nif err := tasks(context.Background()); err != nil {\npanic(err)\n}\n"
        f'fmt.Println("clients-go.md: {len(statements)} blocks ran")\n}}\n'
    )


what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
program = blocks(HERE / "README.md")[0] if what == "readme" else page()
(folder / "main.go").write_text(program, encoding="utf-8")
