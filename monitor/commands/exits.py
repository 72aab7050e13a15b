"""Exit statuses of contract.md section 1, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit status means."""

    DONE = 0
    NO = 1
    WRONG_INPUT = 2
    NOT_DONE = 3


class CommandFailed(Exception):
    """The command ends with this status; the message goes to stderr and says what would be right."""

    def __init__(self, status: Exit, message: str) -> None:
        super().__init__(message)
        self.status = status


def wrong_input(message: str) -> CommandFailed:
    """Input or configuration is wrong (exit 2)."""
    return CommandFailed(Exit.WRONG_INPUT, message)


def not_done(message: str) -> CommandFailed:
    """It could not be done (exit 3)."""
    return CommandFailed(Exit.NOT_DONE, message)
