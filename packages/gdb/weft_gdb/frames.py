"""
The selected fiber and its frames.

A selected fiber changes no register. An unwinder makes the saved frames of the fiber the callers of the
innermost frame of its thread, which is frame 0. The program can therefore continue at any time.
"""

import collections
import os
import struct

import gdb
import gdb.unwinder
from gdb.FrameDecorator import FrameDecorator

from .target import Problem, preserved, read, thread_position

FRAMES_MAX = 200  # frames in which to search for the program's own code
STACK_BYTES_COMPARED = 8192  # of two fibers that may have equal stacks


class Selection:
    """A fiber whose saved frames are shown as callers of the innermost frame of a thread."""

    def __init__(self, fiber, thread):
        layout = fiber.cord.world.layout
        self.id, self.title, self.text = fiber.id, fiber.title, fiber.text()
        self.thread = thread
        self.names = [name for name, _, _ in layout.registers]
        self.registers = fiber.registers()
        self.position = thread_position(thread, layout)
        self.sp = fiber.sp


FrameId = collections.namedtuple("FrameId", "sp pc")


class FiberUnwinder(gdb.unwinder.Unwinder):
    """Unwind from the position of the thread to the saved registers of the selected fiber."""

    def __init__(self):
        super().__init__("weft")
        self.selection = None

    def __call__(self, pending):
        selection = self.selection
        thread = gdb.selected_thread()
        if selection is None or thread is None or thread.ptid != selection.thread.ptid:
            return None
        pc, sp = [pending.read_register(name) for name in selection.names[:2]]
        if (int(pc) & (2**64 - 1), int(sp) & (2**64 - 1)) != selection.position:
            return None
        # gdb expects that callers have higher addresses. The saved sp is below all frames of the fiber.
        unwound = pending.create_unwind_info(FrameId(gdb.Value(selection.sp).cast(sp.type), pc))
        for name, value in selection.registers.items():
            unwound.add_saved_register(name, gdb.Value(value).cast(pending.read_register(name).type))
        return unwound


class ParkedFrame(FrameDecorator):
    """Frame 0 while a fiber is selected: its own function is that of the thread, so do not show it."""

    def __init__(self, base, selection):
        super().__init__(base)
        self.selection = selection

    def function(self):
        return "<fiber %s: %s>" % (self.selection.title, self.selection.text)

    def address(self):
        return None

    def filename(self):
        return None

    def line(self):
        return None

    def frame_args(self):
        return None

    def frame_locals(self):
        return None


class ParkedFilter:
    """A frame filter for backtraces of the selected fiber."""

    def __init__(self):
        self.name, self.priority, self.enabled = "weft", 100, False
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        selection = unwinder.selection
        is_inner = True
        for frame in frames:
            inferior_frame = frame.inferior_frame()
            if is_inner and selection is not None:
                older = inferior_frame.older()
                # Inlined functions of the thread are inner frames too. Show only the last of them.
                if older is not None and frame_position(older, selection) == selection.position:
                    continue
                is_inner = False
                if frame_position(inferior_frame, selection) == selection.position:
                    yield ParkedFrame(frame, selection)
                    continue
            yield frame


def frame_position(frame, selection):
    try:
        return tuple(int(frame.read_register(name)) & (2**64 - 1) for name in selection.names[:2])
    except gdb.error:
        return None


unwinder = FiberUnwinder()
parked_filter = ParkedFilter()


def select(selection):
    """Show the frames of a fiber, or those of the threads if selection is None."""
    unwinder.selection = selection
    parked_filter.enabled = selection is not None
    gdb.invalidate_cached_frames()


def deselect(_=None):
    if unwinder.selection is not None and not calls.is_active:
        select(None)


def select_fiber(fiber):
    """Select the thread of a fiber, and the fiber unless it runs."""
    thread = fiber.cord.thread or gdb.selected_thread()
    is_on_thread = fiber.cord.thread is not None and fiber.cord.thread_fiber() is fiber
    selection = None if is_on_thread else Selection(fiber, thread)
    thread.switch()
    select(selection)


def weft_root():
    """Return the folder src of weft's debug information, or None."""
    symbol = gdb.lookup_global_symbol("weft_spin_with")
    if symbol is None or symbol.symtab is None:
        return None
    root, found, _ = os.path.realpath(symbol.symtab.fullname()).rpartition("core/fiber/")
    return root if found else None


def user_frame():
    """Return the innermost frame of the program's own code, else of code that is not weft's, else None."""
    root = weft_root()
    frame, named = gdb.newest_frame(), None
    if unwinder.selection is not None:
        while frame is not None and frame_position(frame, unwinder.selection) == unwinder.selection.position:
            frame = frame.older()
    for _ in range(FRAMES_MAX):
        if frame is None:
            break
        name, symtab = frame.name() or "", frame.find_sal().symtab
        is_weft = symtab is not None and root and os.path.realpath(symtab.fullname()).startswith(root)
        if name and not name.startswith("weft_") and not is_weft:
            if symtab is not None:
                return frame
            named = named or frame
        frame = frame.older()
    return named


class Survey:
    """What `info fibers` tells about the frames of a fiber, and how to recognise equal stacks."""

    def __init__(self, fiber):
        self.started = fiber.function if fiber.u64("fn") else ""
        self.place = "; function " + self.started if self.started else ""
        self.slots = []  # (offset from sp, return address) of the frames
        before = unwinder.selection
        try:
            with preserved():
                try:
                    select_fiber(fiber)
                    self.look(fiber)
                finally:
                    select(before)
        except (gdb.error, Problem):
            pass

    def look(self, fiber):
        frame = user_frame()
        if frame is not None:
            sal = frame.find_sal()
            line = " at %s:%d" % (sal.symtab.filename, sal.line) if sal.symtab else ""
            of = " of " + self.started if self.started not in ("", frame.name()) else ""
            self.place = "; in %s%s%s" % (frame.name(), of, line)
        if unwinder.selection is None:
            return
        stack = read(fiber.sp, min(STACK_BYTES_COMPARED, fiber.stack.stop - fiber.sp))
        frame = gdb.newest_frame().older()
        while frame is not None and len(self.slots) < FRAMES_MAX:
            at = stack.find(struct.pack("<Q", frame.pc()))
            if at >= 0:
                self.slots.append((at, frame.pc()))
            frame = frame.older()

    def has_equal_stack(self, fiber):
        """Return whether a fiber with the same function, wait and depth has the same return addresses."""
        if not self.slots:
            return True
        try:
            stack = read(fiber.sp, max(at for at, _ in self.slots) + 8)
        except Problem:
            return False
        return all(struct.unpack_from("<Q", stack, at)[0] == pc for at, pc in self.slots)


# Return to the threads before the program runs.


class Calls:
    """Functions of the program that gdb calls, for example for print. The selection survives them."""

    def __init__(self):
        self.is_active = False

    def note(self, event):
        self.is_active = isinstance(event, gdb.InferiorCallPreEvent)


calls = Calls()

# gdb computes the frame of a step before an event tells that the program runs.
HOOKED_COMMANDS = ["thread", "step", "next", "stepi", "nexti", "until", "advance", "jump"]
hooked = set()


def is_defined(name):
    try:
        gdb.execute("show user " + name, to_string=True)
        return True
    except gdb.error:
        return False


def install_hooks():
    """Make commands return to the threads first. A hook of the user remains."""
    for name in HOOKED_COMMANDS:
        if name not in hooked and not is_defined("hook-" + name):
            gdb.execute("define hook-%s\nfiber -deselect\nend" % name, to_string=True)
        hooked.add(name)
