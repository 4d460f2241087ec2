"""Builds in a folder of its own each time: what an earlier build left in build/ would be packed again.

The page of the package is the README without what it refers to in the repository.
"""

import atexit
import re
import shutil
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build import build
from setuptools.command.build_py import build_py


class FreshBuild(build):
    """A build that begins with nothing."""

    def finalize_options(self) -> None:
        """Take another folder than build/, unless one was asked for."""
        if self.build_base == "build":
            folder = tempfile.mkdtemp(prefix="lorabench-build-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            self.build_base = str(Path(folder) / "build")
        super().finalize_options()


class PackageModules(build_py):
    """The modules of the package, whose folder is that of this file."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """All but this file."""
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [entry for entry in found if Path(entry[2]).name != "setup.py"]


def page_of_the_package() -> str:
    """The README as an index of packages can show it: what lies beside it in the repository is not there.

    Pictures go with the line below, links to files become their text or go where they are all that is in parentheses,
    lines for tests go.
    """
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"^(?:!\[[^]]*\]\([^)]*\)(?:\n\*.*\*)?|<!--.*-->)\n+", "", text, flags=re.MULTILINE)
    text = re.sub(r"\s\(\[[^]]+\]\((?!https?:)[^)]*\)\)", "", text)
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


setup(
    cmdclass={"build": FreshBuild, "build_py": PackageModules},
    long_description=page_of_the_package(),
    long_description_content_type="text/markdown",
)
