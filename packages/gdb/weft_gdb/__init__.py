"""gdb commands for programs that use weft: info cords, info fibers, fiber, fiber apply.

The commands read only memory and registers. They work on a live process and on a core file, and call no
function of the program. They need no debug information of weft: the table weft__debug_layout of the
library has the offsets of all fields. docs/adr/0072 has the reasons, and docs/debugging.md has examples.
"""

import gdb
import gdb.printing
import gdb.unwinder

from . import commands, core, frames, printers

is_registered = False


def register():
    """
    Add the commands, printers and handlers to gdb, once. gdb may call this function while it loads a library of a
    program that starts. gdb.execute would then disturb the command `run`.
    """
    global is_registered
    if is_registered:
        return
    is_registered = True
    gdb.unwinder.register_unwinder(None, frames.unwinder, True)
    gdb.printing.register_pretty_printer(None, printers.Printers(), True)
    for command in commands.ALL + [core.FiberCore]:
        command()
    gdb.events.inferior_call.connect(frames.calls.note)
    gdb.events.cont.connect(frames.deselect)
    gdb.events.exited.connect(frames.deselect)
