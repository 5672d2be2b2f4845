"""The commands info cords, info fibers, fiber and fiber apply."""

import collections
import functools
import re
import struct

import gdb

from . import frames
from .fibers import World
from .target import Problem, preserved

GROUP_MIN = 4  # fibers with equal stacks that `info fibers` prints in one line
SURVEYS_MAX = 2000  # stacks to unwind; each takes a few milliseconds


def command(invoke):
    """Report errors of gdb as messages, without a traceback."""

    @functools.wraps(invoke)
    def wrapped(self, argument, from_tty):
        try:
            invoke(self, argument, from_tty)
        except (gdb.error, struct.error, KeyError) as problem:
            raise Problem("weft: %s" % problem) from None

    return wrapped


class InfoCords(gdb.Command):
    """List the cords: threads that run fibers.

An asterisk marks the cord of the selected thread. A cord that sleeps waits for events."""

    def __init__(self):
        super().__init__("info cords", gdb.COMMAND_STATUS)

    @command
    def invoke(self, argument, from_tty):
        world = World()
        for cord in world.cords:
            is_selected = cord.thread is not None and cord.thread.ptid == gdb.selected_thread().ptid
            running = cord.thread_fiber()
            count = len([f for f in cord.fibers() if f.phase != world.layout["phase.ended"]])
            state = "asleep" if cord.is_asleep else "running"
            print("%s %s, %d fibers, %s, current fiber %s%s" % (
                "*" if is_selected else " ", cord_title(cord), count, state,
                running.title if running else "unknown", missing_text(cord)))


def cord_title(cord):
    thread = "thread %d (LWP %d)" % (cord.thread.num, cord.thread_id) if cord.thread else "LWP %d" % cord.thread_id
    return "cord %d: %s '%s', %s" % (cord.index, thread, cord.name, cord.backend)


def missing_text(cord):
    return ", %d parts of the table of fibers cannot be read" % cord.missing if cord.missing else ""


class InfoFibers(gdb.Command):
    """List the fibers of all cords, with the reasons of their waits.

Usage: info fibers [-all] [REGEX]

Print only fibers whose name, function or wait matches REGEX. Fibers with equal stacks share a line,
unless -all is given. An asterisk marks the selected fiber. Locks that fibers hold and wait for in a
cycle are reported at the end."""

    def __init__(self):
        super().__init__("info fibers", gdb.COMMAND_STATUS)

    @command
    def invoke(self, argument, from_tty):
        words = argument.split(None, 1)
        has_all = words[:1] == ["-all"]
        pattern = re.compile(" ".join(words[1:]) if has_all else argument.strip())
        world = World()
        for cord in world.cords:
            lines = fiber_lines(cord.fibers(), has_all, pattern)
            if lines or not pattern.pattern:
                print(cord_title(cord) + missing_text(cord))
            for line in lines:
                print(line)
        for cycle in wait_cycles(world):
            print("cycle: %s" % ", which waits for ".join(f.title for f in cycle + cycle[:1]))


def fiber_groups(fibers):
    """Return pairs of a survey and the fibers with this stack, in the order of their first fiber."""
    by_key = collections.OrderedDict()
    for fiber in fibers:
        by_key.setdefault(fiber.group(), []).append(fiber)
    result = []
    for group in by_key.values():
        while group:
            survey = frames.Survey(group[0]) if len(result) < SURVEYS_MAX else None
            same = [f for f in group[1:] if survey is None or survey.has_equal_stack(f)]
            result.append((survey, group[:1] + same))
            rest = set(group) - set(result[-1][1])
            group = [f for f in group if f in rest]
    return result


def fiber_lines(fibers, has_all, pattern):
    """Return lines about fibers that match a pattern. Fibers with equal stacks share a line, unless has_all is set."""
    lines = []
    for survey, group in fiber_groups(fibers):
        shown = [f for f in group if pattern.search(f.text()) or pattern.search(f.title) or
                 pattern.search(f.function)] if pattern.pattern else group
        has_line_each = has_all or len(shown) < GROUP_MIN
        for fiber in shown if has_line_each else shown[:1]:
            more = "" if has_line_each else " and %d more" % (len(shown) - 1)
            lines.append("%s %s%s %s%s" % ("*" if is_selected(fiber) else " ", fiber.title, more, fiber.text(),
                                           survey.place if survey else ""))
    return lines


def is_selected(fiber):
    if frames.unwinder.selection is not None:
        return frames.unwinder.selection.id == fiber.id
    thread = gdb.selected_thread()
    cord = fiber.cord
    return cord.thread is not None and cord.thread.ptid == thread.ptid and cord.thread_fiber() is fiber


def wait_cycles(world):
    """Return the cycles of fibers that wait for each other, each once."""
    awaited = {}
    for fiber in world.fibers():
        try:
            kind = fiber.wait_kind() if fiber.waits_in else None
            if kind is not None and (kind.owner_at or kind.is_for_fiber):
                awaited[fiber.id] = (fiber, fiber.awaited()[0])
        except Problem:
            continue
    cycles, done = [], set()
    for start in awaited:
        path, fiber_id = [], start
        while fiber_id in awaited and fiber_id not in done:
            done.add(fiber_id)
            path.append(fiber_id)
            other = awaited[fiber_id][1]
            fiber_id = other.id if other is not None else None
        if fiber_id in path:
            cycles.append([awaited[i][0] for i in path[path.index(fiber_id) :]])
    return cycles


class FiberCommand(gdb.Command):
    """Select a fiber, so that backtrace, frame, up, down, info locals and print apply to its frames.

Usage: fiber [ID | NAME | EXPRESSION | off]

Without an argument, print the selected fiber. "fiber off" and "fiber 0" return to the frames of the
thread. So do "thread N", and every command that lets the program run. Frame 0 stands for the thread:
the frames of the fiber begin with frame 1."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK, prefix=True)

    @command
    def invoke(self, argument, from_tty):
        argument = argument.strip()
        if argument in ("off", "0"):
            frames.select(None)
            gdb.execute("frame", from_tty)
            return
        world = World()
        if not argument:
            print_current_fiber(world)
            return
        fiber = world.find(argument)
        frames.install_hooks()
        frames.select_fiber(fiber)
        frame = frames.user_frame()
        if frame is not None:
            frame.select()
        elif frames.unwinder.selection is not None and gdb.newest_frame().older() is not None:
            gdb.newest_frame().older().select()
        print("[Switching to fiber %s, %s]" % (fiber.title, fiber.text()))
        gdb.execute("frame", from_tty)


def print_current_fiber(world):
    selection = frames.unwinder.selection
    fiber = world.by_id(selection.id) if selection else world.of_thread(gdb.selected_thread())
    if fiber is None:
        print("[The selected thread runs no fibers]")
    else:
        print("[Current fiber is %s, %s]" % (fiber.title, fiber.text()))


class FiberApply(gdb.Command):
    """Apply a command to fibers.

Usage: fiber apply all COMMAND
       fiber apply groups COMMAND
       fiber apply ID... COMMAND

"groups" applies the command to one fiber of each group with equal stacks. An error does not end the
list. Afterwards, the selection is as before."""

    def __init__(self):
        super().__init__("fiber apply", gdb.COMMAND_STACK)

    @command
    def invoke(self, argument, from_tty):
        found = re.match(r"\s*(all|groups|#?\d+(?:\s+#?\d+)*)\s+(\S.*)", argument)
        if not found:
            raise Problem("usage: fiber apply all COMMAND, fiber apply groups COMMAND, or fiber apply ID... COMMAND")
        which, line = found.groups()
        world, before = World(), frames.unwinder.selection
        if which == "all":
            groups = [[f] for f in world.fibers()]
        elif which == "groups":
            groups = [group for _, group in fiber_groups(world.fibers())]
        else:
            groups = [[world.find(number)] for number in which.split()]
        with preserved():
            try:
                for group in groups:
                    apply_to_fiber(group, line, from_tty)
            finally:
                frames.select(before)


def apply_to_fiber(group, line, from_tty):
    fiber = group[0]
    more = " and %d more" % (len(group) - 1) if len(group) > 1 else ""
    print("\nFiber %s%s, %s:" % (fiber.title, more, fiber.text()))
    try:
        frames.select_fiber(fiber)
        gdb.execute(line, from_tty)
    except gdb.error as problem:
        print(problem)


class Deselect(gdb.Command):
    """Return to the frames of the thread, like "fiber off", without output."""

    def __init__(self):
        super().__init__("fiber -deselect", gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        frames.deselect()


ALL = [InfoCords, InfoFibers, FiberCommand, FiberApply, Deselect]
