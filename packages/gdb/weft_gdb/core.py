"""
The command fiber core: save a core file with the stacks of all fibers.

Since Linux 6.13 weft guards stacks with MADV_GUARD_INSTALL. A guard is a page in the middle of a mapping that
cannot be read. generate-core-file of gdb omits the rest of such a mapping, so that its core files lack the stacks.
Core files of the kernel are complete.
"""

import struct

import gdb

from .target import Problem

BLOCK_BYTES = 1 << 16
PAGE_BYTES = 1 << 12
PT_LOAD = 1
ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")


def segments(core):
    """Return the address, the file offset and the size of each segment of a 64-bit core file."""
    header = ELF_HEADER.unpack(core.read(ELF_HEADER.size))
    offset, size, count = header[5], header[9], header[10]
    if header[0][:5] != b"\x7fELF\x02" or size != PROGRAM_HEADER.size:
        raise Problem("fiber core: the core file is not a 64-bit ELF file")
    result = []
    for number in range(count):
        core.seek(offset + number * size)
        kind, _, at, address, _, bytes_in_file, _, _ = PROGRAM_HEADER.unpack(core.read(size))
        if kind == PT_LOAD and bytes_in_file > 0:
            result.append((address, at, bytes_in_file))
    return result


def readable(address, size, block):
    """Yield pairs of an address and its memory, without pages that cannot be read."""
    inferior = gdb.selected_inferior()
    for start in range(address, address + size, block):
        length = min(block, address + size - start)
        try:
            yield start, inferior.read_memory(start, length).tobytes()
        except gdb.MemoryError:
            if block > PAGE_BYTES:
                yield from readable(start, length, PAGE_BYTES)


def complete(path):
    """Write the memory that gdb omitted to a core file. Return the number of segments that were incomplete."""
    incomplete = 0
    with open(path, "r+b") as core:
        for address, at, size in segments(core):
            try:
                for start in range(address, address + size, 1 << 20):
                    gdb.selected_inferior().read_memory(start, min(1 << 20, address + size - start))
                continue
            except gdb.MemoryError:
                incomplete += 1
            for start, memory in readable(address, size, BLOCK_BYTES):
                if memory.strip(b"\0"):
                    core.seek(at + start - address)
                    core.write(memory)
    return incomplete


class FiberCore(gdb.Command):
    """Save a core file of the program, with the stacks of all fibers.

Usage: fiber core FILE

Like generate-core-file, but also with memory beside guard pages, where the stacks of fibers are."""

    def __init__(self):
        super().__init__("fiber core", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        path = argument.strip()
        if not path:
            raise Problem("usage: fiber core FILE")
        try:
            gdb.execute("generate-core-file " + path, to_string=True)
            complete(path)
        except (gdb.error, OSError, struct.error) as problem:
            raise Problem("fiber core: %s" % problem) from None
        print("Saved corefile %s" % path)
