"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version


def installed() -> str:
    """Its number; 0+unknown in a checkout that was never installed."""
    try:
        return version("lorabench")
    except PackageNotFoundError:
        return "0+unknown"
