"""Access to the program: memory, registers, and the table weft__debug_layout of the library (src/core/debug/layout.h)."""

import re
import struct

import gdb

LAYOUT_VERSION = 1
LAYOUT_HEADER = struct.Struct("<16s6I3Q")  # magic, version, sizes and offsets, registry, begin and end of the switch
MAGIC = b"weft layout"


class Problem(gdb.GdbError):
    """An error message for the user, without a Python traceback."""


def read(address, size):
    try:
        return gdb.selected_inferior().read_memory(address, size).tobytes()
    except (gdb.MemoryError, OverflowError):
        raise Problem("cannot read %d bytes of memory at 0x%x" % (size, address)) from None


def read_u64(address):
    return struct.unpack("<Q", read(address, 8))[0]


def read_u32(address):
    return struct.unpack("<I", read(address, 4))[0]


def read_string(address, size_max=128):
    """Return the C string at an address. Strings of weft are in read-only data or in arrays of 32 bytes."""
    text = b""
    while len(text) < size_max:
        piece = read(address + len(text), 16 - (address + len(text)) % 16)
        text += piece
        if b"\0" in piece:
            break
    return text.split(b"\0")[0].decode(errors="replace")


def layout_candidates():
    """Yield addresses that may have the table: by its symbol, else by its section in a stripped program."""
    try:
        yield int(gdb.parse_and_eval("(unsigned long)&weft__debug_layout"))
        return
    except gdb.error:
        pass
    for line in gdb.execute("info files", to_string=True).splitlines():
        found = re.match(r"\s*(0x[0-9a-f]+) - 0x[0-9a-f]+ is weft_debug_layout\b", line)
        if found:
            yield int(found.group(1), 16)


class Layout:
    """The facts of weft__debug_layout."""

    def __init__(self, address):
        (_, self.version, fact_bytes, register_bytes, facts_at, registers_at, facts_max, self.registry, begin, end) = (
            LAYOUT_HEADER.unpack(read(address, LAYOUT_HEADER.size)))
        if self.version != LAYOUT_VERSION:
            raise Problem("this script is for another version of weft (layout %d, not %d)"
                          % (LAYOUT_VERSION, self.version))
        self.switch_code = range(begin, end)
        raw = read(address, facts_at + facts_max * fact_bytes)
        self.facts = {}
        for at in range(facts_at, len(raw), fact_bytes):
            name = raw[at : at + fact_bytes - 4].split(b"\0")[0].decode()
            self.facts[name] = struct.unpack_from("<I", raw, at + fact_bytes - 4)[0]
        self.registers = []  # (name, offset, is_value), the program counter first, then the stack pointer
        for at in range(registers_at, facts_at, register_bytes):
            name = raw[at : at + 8].split(b"\0")[0].decode()
            if name:
                self.registers.append((name,) + struct.unpack_from("<i?", raw, at + 8))

    def __getitem__(self, name):
        return self.facts[name]

    @staticmethod
    def find():
        if not gdb.selected_inferior().threads():
            raise Problem("the program has no fibers, because it does not run")
        for address in layout_candidates():
            if read(address, len(MAGIC)) == MAGIC:
                return Layout(address)
        raise Problem("the program does not use weft, or weft has no symbols and no sections")


class preserved:
    """Restore the selected thread and frame at the end of a block."""

    def __enter__(self):
        self.thread = gdb.selected_thread()
        try:
            self.frame = gdb.selected_frame()
        except gdb.error:
            self.frame = None

    def __exit__(self, *_):
        if self.thread is not None and self.thread.is_valid():
            self.thread.switch()
        if self.frame is not None and self.frame.is_valid():
            self.frame.select()


def thread_position(thread, layout):
    """Return the program counter and the stack pointer of a thread."""
    with preserved():
        thread.switch()
        frame = gdb.newest_frame()
        names = [name for name, _, _ in layout.registers[:2]] or ["pc", "sp"]
        return tuple(int(frame.read_register(name)) & (2**64 - 1) for name in names)
