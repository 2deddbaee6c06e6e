"""Traces made byte by byte (shim/trace_format.h), for what no program does at will: hostile names, odd orders, damage."""
import struct

UNIT = 65536
KINDS = ["nothing", "alloc", "alloc_pitch", "alloc_async", "free", "free_async", "passed", "grow", "shrink", "fence", "wait",
         "out_of_memory", "context_begin", "context_end", "thread"]
SETTING, DEVICE, MODULE, CALLER = 1, 2, 3, 4


def record(kind, time_ns, address=0, size=0, result=0, caller=0, context=1, served=True, duration_ns=0):
    return struct.pack("<QQQQQHHHBB", time_ns, duration_ns, address, size, 0, result, caller, context,
                       1 if served else 0, KINDS.index(kind))


def item(what, number, text, value=0, other=0):
    text = text if isinstance(text, bytes) else text.encode()
    row = struct.pack("<HHIIIQ", what, len(text), number, other, 0, value) + text
    return row + b"\0" * (-len(row) % 8)


def trace(records, items=(), program=b"made", host=b"host", ended=1, lost=0, stop=0, lost_from=0):
    """records: a list of what record() makes, in the order of time."""
    records = [record("context_begin", 0, 0xc0, 0)] + list(records)
    body = b"".join(records)
    per_chunk = (UNIT - 48) // 48 * 48
    chunks = b""
    for at in range(0, len(body), per_chunk):
        part = body[at:at + per_chunk]
        first_ns = struct.unpack_from("<Q", part)[0]
        chunk = struct.pack("<IIQIi16sQ", 0x6b6e6843, UNIT, first_ns, 0, 100, b"main", 0) + part
        chunks += chunk + b"\0" * (UNIT - len(chunk))
    header = struct.pack("<8sIIII6QIiiI64s64s264x", b"vratrace", 1, 0x01020304, 48, UNIT, 1, 1700000000000000000, 0,
                         UNIT + len(chunks), lost, lost_from, stop, 0, 7, ended, program, host)
    first = header + b"".join(items)
    return first + b"\0" * (UNIT - len(first)) + chunks
