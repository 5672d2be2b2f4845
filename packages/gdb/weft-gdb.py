# Load the gdb commands of weft: info cords, info fibers, fiber. See docs/debugging.md.
#
# gdb loads this file together with libweft.so (loader.py.in). For a program with the static
# library, use the command: source weft-gdb.py
import os
import sys


def load_weft(folder):
    """Import the package weft_gdb. Its names stay out of the user's namespace."""
    sys.path.insert(0, folder)
    try:
        import weft_gdb
    finally:
        sys.path.remove(folder)
    weft_gdb.register()


load_weft(os.path.dirname(os.path.realpath(__file__)))
del load_weft
