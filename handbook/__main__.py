"""`python -m handbook` writes what the program itself tells into the pages."""

from __future__ import annotations

from handbook.choices import part
from handbook.commands import reference
from handbook.hook import ROOT

BEGIN, END = "<!-- from handbook.choices -->\n", "<!-- end -->"


def written(page: str, told: str) -> str:
    """A page with what lies between its marks replaced."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{told}\n{END}{rest.split(END)[1]}"


def main() -> None:
    (ROOT / "docs/commands.md").write_text(reference(), encoding="utf-8")
    choose = ROOT / "docs/choose.md"
    choose.write_text(written(choose.read_text(encoding="utf-8"), part()), encoding="utf-8")


if __name__ == "__main__":
    main()
