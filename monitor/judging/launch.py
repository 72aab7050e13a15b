"""Sets limits on itself and becomes the program: `python launch.py MEMORY_BYTES CPU_SECONDS PROGRAM ARGUMENT…`.

A program of its own, so that nothing has to run between fork and exec in a process that has threads.
"""

import os
import resource
import sys


def main() -> None:
    """Set the limits, then exec; status 127 when there is no such program."""
    memory, seconds, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        os.execvp(command[0], command)  # noqa: S606 (a team's own program, named in its rubric)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
