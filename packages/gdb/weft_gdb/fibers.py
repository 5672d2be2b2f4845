"""Cords and fibers, as copies of the program's memory."""

import collections
import errno
import functools
import re
import struct
import time

import gdb

from .target import Layout, Problem, read, read_string, read_u32, read_u64, thread_position

OWNER_DEAD = 2**64 - 1  # the holder of a lock that ended without unlocking
NEVER = 2**63 - 1  # a deadline that never comes

WaitKind = collections.namedtuple("WaitKind", "name is_for_fiber fd_at owner_at owner_generation_at")


class Fiber:
    """A copy of a fiber record."""

    __slots__ = ("cord", "address", "raw", "id", "waits_in", "sp", "phase")

    def __init__(self, cord, address, raw, at):
        self.cord, self.address, self.raw = cord, address, raw
        self.id, self.waits_in, self.sp, self.phase = at

    def u64(self, field):
        return struct.unpack_from("<Q", self.raw, self.cord.world.layout["fiber." + field])[0]

    def i64(self, field):
        return struct.unpack_from("<q", self.raw, self.cord.world.layout["fiber." + field])[0]

    def u32(self, field):
        return struct.unpack_from("<I", self.raw, self.cord.world.layout["fiber." + field])[0]

    @property
    def name(self):
        at = self.cord.world.layout["fiber.name"]
        name = self.raw[at : at + self.cord.world.layout["name.bytes"]]
        return name.split(b"\0")[0].decode(errors="replace")

    @property
    def title(self):
        return "#%d '%s'" % (self.id, self.name)

    @property
    def function(self):
        fn = self.u64("fn")
        return symbol_name(fn) if fn else "main"

    @property
    def stack(self):
        low = self.u64("stack.low")
        return range(low, low + self.u32("stack.bytes")) if low else range(0)

    @property
    def state(self):
        layout = self.cord.world.layout
        if self.phase == layout["phase.ended"]:
            return "ended"
        if self.waits_in:
            return "waiting"
        if self.cord.thread_fiber() is self:
            return "running"
        return "new" if self.phase == layout["phase.fresh"] else "runnable"

    def awaited(self):
        """Return the fiber that must end the wait, or None, and a text about it."""
        world, kind, obj = self.cord.world, self.wait_kind(), self.u64("wait_object")
        if kind.is_for_fiber:
            other = world.by_address(obj)
            return other, " " + other.title if other else ""
        if not kind.owner_at:
            return None, ""
        owner = read_u64(obj + kind.owner_at - 1)
        if owner == 0:
            return None, ""
        other = world.by_address(owner) if owner != OWNER_DEAD else None
        generation = read_u32(obj + kind.owner_generation_at - 1)
        if other is None or other.u32("owner_generation") != generation:
            return None, " whose holder has ended"
        return other, " held by " + other.title

    def wait_kind(self):
        return self.cord.world.wait_kind(self.waits_in)

    def wait_text(self):
        """Return what the fiber waits for. Without readable memory, the text is shorter."""
        try:
            kind = self.wait_kind()
        except Problem:
            return "waiting"
        text = "waiting for " + kind.name
        try:
            if kind.fd_at:
                fd = struct.unpack("<i", read(self.u64("wait_object") + kind.fd_at - 1, 4))[0]
                text += " on descriptor %d" % fd if fd >= 0 else ""
            text += self.awaited()[1]
        except Problem:
            text += " (memory is missing)"
        since_s = (self.cord.now_ns() - self.i64("wait_since_ns")) / 1e9
        text += ", %.3f s" % max(since_s, 0)
        left = self.deadline_left_s()
        return text + (", %.3f s left" % left if left is not None else "")

    def deadline_left_s(self):
        """Return the time until a sleep or a deadline ends. None: no deadline."""
        layout, live = self.cord.world.layout, self.u64("live")
        try:
            for field in ("timer", "deadline") if live else ():
                timer = live + layout["fiber_live." + field]
                at_ns = read_u64(timer + layout["timer.deadline_ns"])
                if read_u64(timer + layout["timer.link.next"]) not in (0, timer) and at_ns != NEVER:
                    return max(at_ns - self.cord.now_ns(), 0) / 1e9
        except Problem:
            pass
        return None

    def text(self):
        state = self.wait_text() if self.state == "waiting" else self.state
        if self.state == "ended":
            state += " with " + value_text(self.i64("result"))
        layout = self.cord.world.layout
        return state + (", parked" if self.raw[layout["fiber.wake_flags"]] & 1 else "")

    def group(self):
        """Fibers with equal stacks have the same key. The reverse is not certain (frames.Survey)."""
        depth = self.stack.stop - self.sp if self.u64("stack.low") else self.address
        if self.cord.thread_fiber() is self:
            depth = self.address
        return (self.cord.index, self.u64("fn"), self.phase, self.waits_in, depth, re.sub(r"\d+", "0", self.name))

    def registers(self):
        """Return the saved registers of a fiber that does not run, by name."""
        layout = self.cord.world.layout
        if not layout.registers:
            raise Problem("this build of weft switches with ucontext, and gdb cannot find the frames")
        if self.phase == layout["phase.ended"]:
            raise Problem("fiber %s has ended and has no frames" % self.title)
        result = {}
        for name, at, is_value in layout.registers:
            result[name] = self.sp + at if is_value else read_u64(self.sp + at)
        return result


class Cord:
    """A copy of the fields of a cord."""

    def __init__(self, world, index, address):
        self.world, self.index, self.address = world, index, address
        layout = world.layout
        backend = read_u64(address + layout["cord.backend"])
        backend_type = read_u64(backend + layout["backend.type"])
        self.backend = read_string(read_u64(backend_type + layout["backend_type.name"]))
        self.is_virtual = read_u64(backend_type + layout["backend_type.inherit_clock"]) != 0
        self.thread_id = read_u32(backend + layout["backend.thread"])
        self.current = read_u64(address + layout["cord.current"])
        self.main = read_u64(address + layout["cord.main"])
        self.clock_ns = read_u64(address + layout["cord.now_ns"])
        self.is_asleep = read(address + layout["cord.is_asleep"], 1) != b"\0"
        handle = read_u64(address + layout["cord.handle"])
        self.own_name = read_string(handle + layout["cord_handle.name"]) if handle else ""
        self.thread = self.find_thread()
        self.missing = 0  # chunks of records that cannot be read

    def find_thread(self):
        threads = gdb.selected_inferior().threads()
        for thread in threads:
            if self.thread_id in (thread.ptid[1], thread.ptid[2]):
                return thread
        return threads[0] if len(threads) == 1 else None

    @property
    def name(self):
        return self.own_name or (self.thread.name if self.thread else None) or ""

    def now_ns(self):
        return self.clock_ns if self.is_virtual else self.world.now_ns

    @functools.lru_cache(maxsize=None)
    def chunks(self):
        layout = self.world.layout
        count = read_u32(self.address + layout["cord.chunks_count"])
        table = read(read_u64(self.address + layout["cord.chunks"]), 8 * count)
        return struct.unpack("<%dQ" % count, table)

    @functools.lru_cache(maxsize=None)
    def chunk(self, number):
        """Return the fibers of a chunk of records, by slot in the chunk."""
        layout = self.world.layout
        start, size = self.chunks()[number], layout["fiber.bytes"]
        raw = read(start, size * layout["chunk.fibers"])
        fields = [layout["fiber." + f] for f in ("id", "waits_in", "context.sp", "phase")]
        fibers = {}
        for slot in range(layout["chunk.fibers"]):
            base = slot * size
            if struct.unpack_from("<Q", raw, base + fields[0])[0] == 0:
                continue
            at = [struct.unpack_from("<Q", raw, base + f)[0] for f in fields[:3]] + [raw[base + fields[3]]]
            fibers[slot] = Fiber(self, start + base, raw[base : base + size], at)
        return fibers

    @functools.lru_cache(maxsize=None)
    def fibers(self):
        """Return all fibers, the main fiber first. Skip records that a core file lacks."""
        result = []
        self.missing = 0
        for number in range(len(self.chunks())):
            try:
                result += self.chunk(number).values()
            except Problem:
                self.missing += 1
        result.sort(key=lambda f: (f.address != self.main, f.id & 0xFFFFFFFF))
        return result

    def at_address(self, address):
        layout = self.world.layout
        size = layout["fiber.bytes"]
        for number, start in enumerate(self.chunks()):
            if start <= address < start + size * layout["chunk.fibers"]:
                return self.chunk(number).get((address - start) // size)
        return None

    @functools.lru_cache(maxsize=None)
    def thread_fiber(self):
        """
        Return the fiber whose frames are those of the thread. This is the current fiber, also while it polls the
        backend in a wait. In the middle of a switch, the thread is still on the stack of the previous fiber.
        """
        current = self.at_address(self.current)
        if self.thread is None or current is None:
            return current
        pc, sp = thread_position(self.thread, self.world.layout)
        if sp in current.stack:
            return current
        for fiber in self.fibers() if pc in self.world.layout.switch_code else ():
            if sp in fiber.stack:
                return fiber
        is_main = pc in self.world.layout.switch_code
        return self.at_address(self.main) if is_main else current


class World:
    """All cords of the program, as of one command."""

    def __init__(self):
        self.layout = Layout.find()
        slots, end, slot_bytes, cord_at = struct.unpack("<QQII", read(self.layout.registry, 24))
        self.cords = []
        for index in range(read_u32(end)):
            address = read_u64(slots + index * slot_bytes + cord_at)
            if address:
                self.cords.append(Cord(self, index, address))
        self.kinds = {}
        self.now_ns = max([c.clock_ns for c in self.cords if not c.is_virtual], default=0)
        connection = getattr(gdb.selected_inferior(), "connection", None)
        if connection is not None and connection.type == "native":
            self.now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def wait_kind(self, address):
        if address not in self.kinds:
            at = {field: address + self.layout["wait_kind." + field] for field in WaitKind._fields}
            self.kinds[address] = WaitKind(
                read_string(read_u64(at["name"])), read(at["is_for_fiber"], 1) != b"\0",
                *[struct.unpack("<H", read(at[f], 2))[0] for f in WaitKind._fields[2:]])
        return self.kinds[address]

    def by_address(self, address):
        for cord in self.cords:
            fiber = cord.at_address(address)
            if fiber is not None:
                return fiber
        return None

    def by_id(self, number):
        """Return the fiber with an id, or None. The id contains the cord and the slot."""
        bits = self.layout["id.fibers_bits"]
        index = (number >> bits) & ((1 << self.layout["id.cords_bits"]) - 1)
        slot = number & ((1 << bits) - 1)
        per_chunk = self.layout["chunk.fibers"]
        for cord in self.cords:
            if cord.index == index and slot // per_chunk < len(cord.chunks()):
                fiber = cord.chunk(slot // per_chunk).get(slot % per_chunk)
                return fiber if fiber is not None and fiber.id == number else None
        return None

    def fibers(self):
        return [f for cord in self.cords for f in cord.fibers()]

    def find(self, text):
        """Return the fiber that the user names by id, name or expression."""
        number = text.lstrip("#")
        if not number.isdigit():
            named = [f for f in self.fibers() if f.name == text.strip("'")]
            if len(named) > 1:
                raise Problem("%d fibers have the name %s: use an id" % (len(named), text))
            if named:
                return named[0]
            try:
                number = int(gdb.parse_and_eval(text))
            except (gdb.error, ValueError):
                raise Problem("no fiber has the id or the name %s" % text) from None
        fiber = self.by_id(int(number))
        if fiber is None:
            raise Problem("no fiber has the id %s" % number)
        return fiber

    def of_thread(self, thread):
        for cord in self.cords:
            if thread is not None and cord.thread is not None and cord.thread.ptid == thread.ptid:
                return cord.thread_fiber()
        return None


def symbol_name(address):
    text = gdb.execute("info symbol 0x%x" % address, to_string=True)
    found = re.match(r"(\S+)( \+ \d+)? in section", text)
    return found.group(1) if found else "0x%x" % address


def value_text(value):
    """Return a weft_value as text. A negative errno has its name."""
    name = errno.errorcode.get(-value) if -4096 < value < 0 else None
    return "%d (-%s)" % (value, name) if name else str(value)
