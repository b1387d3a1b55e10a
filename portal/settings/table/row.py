"""One row of the table of settings."""

from dataclasses import dataclass
from typing import Any

from portal.settings.kinds import Kind

DERIVED = object()  # the default follows from other settings; it is said where it is read


@dataclass(frozen=True)
class Setting:
    """What there is to know of one setting; ``meaning`` is a line of docs/settings.md."""

    name: str  # without BERTH_
    kind: Kind
    default: Any
    meaning: str
    otherwise: str = ""  # how the default is said; "": as it is
    secret: bool = False  # its value is in no message
    of: str = ""  # the processes that are given it; "": all

    @property
    def variable(self) -> str:
        return f"BERTH_{self.name}"

    @property
    def said_default(self) -> str:
        """The default as the page has it."""
        if self.otherwise:
            return self.otherwise
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        if isinstance(self.default, list):
            return f"`{','.join(self.default)}`" if self.default else ""
        return f"`{self.default}`" if self.default != "" else ""
