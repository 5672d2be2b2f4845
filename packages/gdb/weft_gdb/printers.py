"""Printers of public types."""

import struct

import gdb
import gdb.printing

from .fibers import NEVER, OWNER_DEAD, World, value_text
from .target import read, read_u64


class TextPrinter:
    """Print a value as a text, and the raw value after it if the type is opaque."""

    def __init__(self, describe, value):
        self.describe, self.value = describe, value

    def to_string(self):
        try:
            return self.describe(self.value)
        except (gdb.error, gdb.GdbError, struct.error, KeyError):
            return self.value.format_string(raw=True)


def describe_fiber_id(value):
    number = int(value)
    fiber = World().by_id(number) if number else None
    return str(number) if fiber is None else "%d '%s'" % (number, fiber.name)


def describe_value(value):
    return value_text(int(value))


def describe_scope(value):
    world, address = World(), int(value.address)
    layout = world.layout
    owner = read_u64(address + layout["scope.fiber"])
    fiber = world.by_address(owner) if owner else None
    if fiber is None:
        return "closed scope"
    deadline_ns = read_u64(address + layout["scope.deadline_ns"])
    words = ["shield" if read(address + layout["scope.is_shield"], 1) != b"\0" else "scope", "of " + fiber.title]
    if deadline_ns != NEVER:
        words.append("with %.3f s left" % ((deadline_ns - fiber.cord.now_ns()) / 1e9))
    return " ".join(words) + (", cancelled" if read(address + layout["scope.is_cancelled"], 1) != b"\0" else "")


def queue_length(waitq):
    """Return the number of waiters in a weft__waitq, which is circular."""
    first, count = waitq["first"], 0
    waiter = first
    while waiter and count < 1000000:
        count += 1
        waiter = waiter["next"]
        if waiter == first:
            break
    return count


def describe_mutex(value):
    """This printer and the next need the debug information of weft."""
    mutex = value.cast(gdb.lookup_type("weft__mutex")) if value.address is None else (
        value.address.cast(gdb.lookup_type("weft__mutex").pointer()).dereference())
    owner = int(mutex["owner"]["fiber"])
    waiters = queue_length(mutex["waiters"])
    if not owner:
        return "unlocked mutex"
    fiber = World().by_address(owner) if owner != OWNER_DEAD else None
    return "mutex held by %s, %d waiting" % (fiber.title if fiber else "a fiber that has ended", waiters)


def describe_chan(value):
    fifo = value["fifo"]
    if value["shared"]:
        return "shared channel"
    return "%schannel with %d of %d items, %d receivers and %d senders waiting" % (
        "closed " if fifo["is_closed"] else "", int(fifo["count"]), int(fifo["limit"]),
        queue_length(fifo["receivers"]), queue_length(fifo["senders"]))


PRINTERS = {
    "weft_fiber": describe_fiber_id,
    "weft_cord": describe_fiber_id,
    "weft_value": describe_value,
    "weft_scope": describe_scope,
    "weft_mutex": describe_mutex,
    "weft_chan": describe_chan,
}


class Printers(gdb.printing.PrettyPrinter):
    def __init__(self):
        super().__init__("weft", [gdb.printing.SubPrettyPrinter(name) for name in PRINTERS])

    def __call__(self, value):
        name = value.type.name
        if name not in PRINTERS or not all(p.enabled for p in self.subprinters if p.name == name):
            return None
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT and not value.type.strip_typedefs().fields():
            return None
        return TextPrinter(PRINTERS[name], value)
