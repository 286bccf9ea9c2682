"""`python -m handbook` writes what the program itself tells into the pages."""

from __future__ import annotations

from handbook.choices import part
from handbook.commands import reference
from handbook.hook import ROOT

BEGIN, END = "<!-- from handbook.choices -->\n", "\n<!-- end -->"


def written(page: str, told: str) -> str:
    """A page with the part between its marks replaced."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{told}{END}{rest.partition(END)[2]}"


def main() -> None:
    (ROOT / "docs/commands.md").write_text(reference(), encoding="utf-8")
    choose = ROOT / "docs/choose.md"
    choose.write_text(written(choose.read_text(encoding="utf-8"), part()), encoding="utf-8")


if __name__ == "__main__":
    main()
