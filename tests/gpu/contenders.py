"""The contenders of the GPU benchmark, measured in turn, as one table and as CSV. Used by tests/gpu/bench.

Each figure is of a process of its own (tests/gpu/contend.c and contend_cupy.py, which say what the rows are). In a round
every contender is measured once: group by group of rows, in each group contender by contender, the first one another
each round. A cell is the median of the rounds; what follows is half of the distance from the least to the most, in
per cent of it. A contender that fails has rows that say so; the others go on.

It leaves out whole programs (tests/gpu/bench) and judges nothing.
"""
import csv
import hashlib
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
COLUMNS = ("contender", "runtime", "free", "row", "bytes", "threads", "unit", "median", "least", "most", "rounds",
           "held_bytes", "note")
DEFERRED, VMM = {"VRAMALLOC_FREE": "deferred"}, {"VRAMALLOC_BACKING": "vmm"}
WAITS, DEFERS, STREAM, NOTHING = "waits", "deferred", "stream", "-"  # when a freed block may be used again
GROUPS = ("pairs", "rotate 0", "threads", "busy", "rotate 4096", "rotate 1048576", "rotate 67108864")
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAIR_SIZES, BESIDE_SIZES = [1 << p for p in range(8, 31, 2)], [1 << p for p in range(8, 21, 2)]
BUSY_SIZES = 4 * KIB, MIB, 64 * MIB
ROWS = {"pairs": [("pair", size, 1) for size in PAIR_SIZES] + [("beside", size, 1) for size in BESIDE_SIZES],
        "busy": [(row, size, 1) for size in BUSY_SIZES for row in ("busy same", "busy other")],
        "threads": [("threads", size, count) for size in (4 * KIB, MIB) for count in (1, 4, 16)]}
ROWS.update({group: [("rotate", int(group.split()[1]), 1)] for group in GROUPS if group.startswith("rotate")})
INTERPRETER = "interpreter", 0, 1
PROCESS_S, RESERVE_S = 60, 5  # the longest one process may take; what is kept of the limit to write things down
NAME_WIDTH, CELL_WIDTH, MOST_NOTES, NOTE_WIDTH = 31, 12, 9, 118


def size_text(size):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return "%d %s" % (size // unit, name)
    return "%d B" % size if size else "mixed"


def column(title, row, held=False):
    return title, row, held


SECTIONS = (
    ("one block, allocated and freed, GPU idle; beside: with a live block of 256 B",
     [column(size_text(size), ("pair", size, 1)) for size in (256, 64 * KIB, MIB, 64 * MIB, GIB)]
     + [column("beside " + text, ("beside", size, 1)) for text, size in (("256", 256), ("64K", 64 * KIB))]),
    ("64 live blocks, the oldest freed for each new one; MiB: most held of the card; mixed: 256 B to 16 MiB",
     [column(size_text(size), ("rotate", size, 1)) for size in (4 * KIB, MIB, 64 * MIB, 0)]
     + [column("MiB, " + size_text(size), ("rotate", size, 1), True) for size in (4 * KIB, MIB, 64 * MIB, 0)]),
    ("beside kernels of 20 us, on the same or another stream; and threads at once, a pair of any of them",
     [column("same, 1 MiB", ("busy same", MIB, 1)), column("other, 1 MiB", ("busy other", MIB, 1))]
     + [column("%d: %s" % (count, size_text(size)), ("threads", size, count)) for size in (4 * KIB, MIB) for count in (1, 4, 16)]),
)


class Contender:
    """name: also in the CSV; what: its name in the program; library: of contend_*.cpp; env: None without vramalloc"""

    def __init__(self, name, runtime, free, what, library=None, env=None):
        self.name, self.runtime, self.free, self.what, self.library, self.env = name, runtime, free, what, library, env
        self.values, self.held, self.failed, self.version = {}, {}, {}, ""
        self.hopeless = set()  # groups that are not tried again
        self.absent = ""  # why it cannot be measured here

    def measured(self, row):
        return bool(self.values.get(row))


def contenders():
    """All, in the table's order. cudaFree(0) is no allocator, but what the runtime's doorway costs on the way in, for both."""
    return [
        Contender("cudaFree(0) twice", "static", NOTHING, "doorway"),
        Contender("cudaFree(0) twice, shared", "shared", NOTHING, "doorway"),
        Contender("cudaMalloc", "static", WAITS, "malloc"),
        Contender("cudaMalloc, shared", "shared", WAITS, "malloc"),
        Contender("cudaMallocAsync, threshold 0", "static", STREAM, "async-0"),
        Contender("cudaMallocAsync, max", "static", STREAM, "async-max"),
        Contender("cudaMallocAsync, max, shared", "shared", STREAM, "async-max"),
        Contender("CUB", "shared", STREAM, "cub", "contend_cub.so"),
        Contender("CUB, bins to 1 GiB", "shared", STREAM, "cub-wide", "contend_cub.so"),
        Contender("RMM pool", "static", STREAM, "rmm-pool", "contend_rmm.so"),
        Contender("RMM arena", "static", STREAM, "rmm-arena", "contend_rmm.so"),
        Contender("PyTorch", "shared", STREAM, "torch", "contend_torch.so"),
        Contender("CuPy, from Python", "static", STREAM, "cupy"),
        Contender("vramalloc sync", "static", WAITS, "malloc", env={}),
        Contender("vramalloc sync, shared", "shared", WAITS, "malloc", env={}),
        Contender("vramalloc sync, vmm", "static", WAITS, "malloc", env=VMM),
        Contender("vramalloc deferred", "static", DEFERS, "malloc", env=DEFERRED),
        Contender("vramalloc deferred, shared", "shared", DEFERS, "malloc", env=DEFERRED),
        Contender("vramalloc deferred, vmm", "static", DEFERS, "malloc", env=dict(DEFERRED, **VMM)),
        Contender("vramalloc async", "static", STREAM, "async", env={}),
        Contender("vramalloc async, shared", "shared", STREAM, "async", env={}),
        Contender("vramalloc async, vmm", "static", STREAM, "async", env=VMM),
    ]


# --- this machine -----------------------------------------------------------------------------------------------


class Place:
    """Where programs lie and how they are run. build: the folder; sim: on the simulated driver"""

    def __init__(self, build, sim, quietest):
        self.sim, self.quietest = sim, quietest
        self.programs, self.library = os.path.join(build, "contend" if sim else "gpu"), os.path.join(build, "libvramalloc.so")
        self.paths = [os.path.join(build, "sim")] if sim else cudart_folders()

    def command(self, contender, what, ms):
        if contender.what == "cupy":
            command = [sys.executable, os.path.join(HERE, "contend_cupy.py"), what, str(ms)]
        else:
            program = "contend.shared" if contender.runtime == "shared" or contender.library else "contend"
            command = [os.path.join(self.programs, program), contender.what, what, str(ms)]
            command += [os.path.join(self.programs, contender.library)] if contender.library else []
        if what != "threads" and not self.sim and shutil.which("taskset"):
            command = ["taskset", "-c", str(self.quietest()), *command]
        return command

    def environment(self, contender):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("VRAMALLOC_", "VRSIM_", "LD_PRELOAD"))}
        given = [env["LD_LIBRARY_PATH"]] if env.get("LD_LIBRARY_PATH") else []
        env["LD_LIBRARY_PATH"] = ":".join(self.paths + given if self.sim else given + self.paths)
        if contender.env is not None:
            env.update(contender.env, LD_PRELOAD=self.library, VRAMALLOC_REPORT="off")
        return env

    def absent(self, contender):
        """Why it cannot run here; empty if it can."""
        if self.sim and (contender.library or contender.what == "cupy"):
            return "needs a GPU"
        if contender.what == "cupy":
            return "" if module_folder("cupy") else "CuPy is not installed"
        if contender.what == "torch" and not os.path.exists(os.path.join(self.programs, contender.library)):
            return torch_build(self.programs)
        program = self.command(contender, "threads", 1)[0]
        needed = [program] + [self.library] * (contender.env is not None)
        needed += [os.path.join(self.programs, contender.library)] if contender.library else []
        for path in needed:
            if not os.path.exists(path):
                return "%s was not built" % os.path.basename(path)
        return ""


def module_folder(name):
    import importlib.util
    found = importlib.util.find_spec(name)
    return found.submodule_search_locations[0] if found and found.submodule_search_locations else None


def cuda_home():
    nvcc = shutil.which("nvcc")
    for home in (os.environ.get("CUDA_HOME"), nvcc and os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "/usr/local/cuda"):
        if home and os.path.isdir(home):
            return home
    return "/usr/local/cuda"


def cudart_folders():
    """Where a libcudart.so.13 may be: the toolkit, and what PyTorch brings along."""
    torch = module_folder("torch")
    site = os.path.dirname(torch) if torch else ""
    places = [os.path.join(cuda_home(), "lib64"), os.path.join(site, "nvidia", "cu13", "lib")]
    return [place for place in places if os.path.exists(os.path.join(place, "libcudart.so.13"))]


def torch_build(folder):
    """Compiles PyTorch's contender against the PyTorch that is here. Empty, or why not."""
    torch = module_folder("torch")
    if not torch:
        return "PyTorch is not installed"
    includes = [os.path.join(cuda_home(), "include"), os.path.join(torch, "include"),
                os.path.join(os.path.dirname(torch), "nvidia", "cu13", "include")]
    libraries = os.path.join(torch, "lib")
    command = [os.environ.get("CXX", "g++"), "-O2", "-std=c++17", "-fPIC", "-shared", os.path.join(HERE, "contend_torch.cpp"),
               "-o", os.path.join(folder, "contend_torch.so"), *("-I" + i for i in includes), "-L" + libraries, "-lc10_cuda",
               "-lc10", "-Wl,-rpath," + libraries]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "its C++ does not compile: %s" % error
    errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
    return "" if done.returncode == 0 else "its C++ does not compile: " + errors[0][-150:]


def digest(path):
    """Which library it was: the beginning of its SHA-256."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]
    except OSError:
        return "none"


def head(place, arguments):
    """What is said of the machine: pairs for the CSV."""
    def ask(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            return ""

    gpu = "simulated driver: times mean nothing" if place.sim else \
        ask("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").split("\n")[0]
    nvcc = [line for line in ask("nvcc", "--version").splitlines() if "release" in line]
    cpu = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "")
    return [("gpu", gpu or "unknown"), ("cpu", "%s, %d processors" % (cpu or platform.machine(), len(os.sched_getaffinity(0)))),
            ("system", "%s %s" % (platform.system(), platform.release())),
            ("cuda", nvcc[0].strip() if nvcc else "no nvcc here"), ("vramalloc", "sha256 " + digest(place.library)), ("python", platform.python_version()),
            ("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())), ("arguments", " ".join(arguments))]


# --- measuring ----------------------------------------------------------------------------------------------------


def line_take(contender, line):
    fields = line.split(",", 4)
    if fields[0] == "version" and len(fields) > 1:
        contender.version = ",".join(fields[1:])
    elif len(fields) == 5 and fields[3] == "failed":
        contender.failed.setdefault((fields[0], int(fields[1]), int(fields[2])), fields[4])
    elif len(fields) == 5:
        row = fields[0], int(fields[1]), int(fields[2])
        contender.values.setdefault(row, []).append(float(fields[3]) / 1e3)
        contender.held[row] = max(contender.held.get(row, -1), int(fields[4]))


def output_text(output):
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def measure(place, contender, group, ms, end):
    """One process. What it printed counts also where it failed later."""
    allowed = min(PROCESS_S, end - time.monotonic())
    if allowed <= 0:
        return
    before = {row: len(values) for row, values in contender.values.items()}
    why = ""
    try:
        done = subprocess.run(place.command(contender, group, ms), env=place.environment(contender), capture_output=True,
                              text=True, timeout=allowed, stdin=subprocess.DEVNULL)
        out = done.stdout
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.strip()]
            why = "exit %d%s" % (done.returncode, ": " + errors[-1][:200] if errors else "")
    except subprocess.TimeoutExpired as late:
        out, why = output_text(late.stdout), "" if allowed < PROCESS_S else "stopped after %d s" % PROCESS_S
    except OSError as error:
        out, why = "", str(error)
    for line in out.splitlines():
        try:
            line_take(contender, line)
        except ValueError:
            why = why or "an unknown line: " + line[:100]
    for row in ROWS[group] if why else ():
        if len(contender.values.get(row, ())) == before.get(row, 0):
            contender.failed.setdefault(row, why)
    if why.startswith("stopped") or not any(contender.measured(row) for row in ROWS[group]):
        contender.hopeless.add(group)


def round_run(place, chosen, index, ms, end):
    """Each contender once; whether there was time for it."""
    first = index * 7 % len(chosen)
    for group in GROUPS:
        for contender in chosen[first:] + chosen[:first]:
            if time.monotonic() >= end:
                return False
            if group not in contender.hopeless:
                measure(place, contender, group, ms, end)
    return True


# --- what is printed and written ----------------------------------------------------------------------------------


def us_text(us):
    return "%.3f" % us if us < 10 else "%.1f" % us if us < 1000 else "%.0f" % us


def cell_text(record, held):
    """A record of the CSV as a cell; None: never measured."""
    if record is None:
        return "-"
    if record["note"]:
        return "failed"
    if held:
        return "%.0f" % (int(record["held_bytes"]) / MIB) if record["held_bytes"] else "?"
    median_us, least, most = (float(record[key]) for key in ("median", "least", "most"))
    spread = " %2.0f%%" % min(999, 50 * (most - least) / median_us) if int(record["rounds"]) > 1 and median_us > 0 else ""
    return us_text(median_us) + spread


def records(chosen):
    """The CSV's rows, as dictionaries of texts."""
    for contender in chosen:
        for row in sorted(set(contender.values) | set(contender.failed), key=lambda r: (r[0], r[2], r[1])):
            values, held = contender.values.get(row), contender.held.get(row, -1)
            numbers = ["%.4f" % f(values) for f in (statistics.median, min, max)] if values else ["", "", ""]
            note = "" if values else contender.failed[row]
            yield dict(zip(COLUMNS, (contender.name, contender.runtime, contender.free, row[0], str(row[1]), str(row[2]), "us",
                                     *numbers, str(len(values or ())), str(held) if held >= 0 else "", note)))


def by_cell(rows):
    return {(r["contender"], r["row"], int(r["bytes"]), int(r["threads"])): r for r in rows}


def sections_print(chosen, cells):
    for title, columns in SECTIONS:
        print("\n%s, us" % title)
        print("%-*s" % (NAME_WIDTH, "") + "".join("%*s" % (CELL_WIDTH + 1, name) for name, _, _ in columns))
        for contender in chosen:
            print("%-*s" % (NAME_WIDTH, contender.name) + "".join(
                "%*s" % (CELL_WIDTH + 1, cell_text(cells.get((contender.name, *row)), held)) for _, row, held in columns))


def full_print(rows):
    form = "%-30s %-12s %11s %8s %11s %11s %11s %7s %9s"
    print("\n" + form % ("contender", "row", "bytes", "threads", "median us", "least", "most", "rounds", "MiB held"))
    for r in rows:
        if r["note"]:
            print("%-30s %-12s %11s %8s failed: %s" % (r["contender"], r["row"], r["bytes"], r["threads"], r["note"][:80]))
            continue
        held = "%.0f" % (int(r["held_bytes"]) / MIB) if r["held_bytes"] else ""
        print(form % (r["contender"], r["row"], r["bytes"], r["threads"], r["median"], r["least"], r["most"], r["rounds"], held))


def notes_print(chosen, left_out):
    """Why contenders are not there, and what failed: a line each, as many as there is room for."""
    notes = ["left out: %s: %s" % (c.name, c.absent) for c in left_out]
    for contender in chosen:
        reasons = {}
        for row, why in contender.failed.items():
            reasons.setdefault(why, []).append(row)
        notes += ["failed: %s, %s %s%s: %s" % (contender.name, rows[0][0], size_text(rows[0][1]),
                                               " and %d rows more" % (len(rows) - 1) if len(rows) > 1 else "", why)
                  for why, rows in reasons.items()]
    for contender in chosen:
        if contender.measured(INTERPRETER):
            notes.append("%s: %.3f us of each figure are Python's loop around a function that does nothing" % (
                contender.name, statistics.median(contender.values[INTERPRETER])))
    for note in notes[:MOST_NOTES]:
        print(note[:NOTE_WIDTH])
    if len(notes) > MOST_NOTES:
        print("%d more such lines; the CSV has all" % (len(notes) - MOST_NOTES))


def csv_write(path, facts, rows):
    with open(path, "w", newline="") as file:
        for key, value in facts:
            file.write("# %s: %s\n" % (key, " ".join(str(value).split())))
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


class Malformed(Exception):
    """What is wrong with a CSV, in a line."""


def csv_read(path):
    """The facts of its head, and its rows; Malformed where it is none of csv_write's."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Malformed("cannot be read: %s" % error)
    facts = [tuple(line[2:].split(": ", 1)) for line in lines if line.startswith("# ") and ": " in line]
    body = list(csv.reader(line for line in lines if not line.startswith("#")))
    if not body or tuple(body[0]) != COLUMNS:
        raise Malformed("its first line is not %s" % ",".join(COLUMNS))
    rows = []
    for number, fields in enumerate(body[1:], 1):
        row = dict(zip(COLUMNS, fields))
        if len(fields) != len(COLUMNS) or not row_is_sound(row):
            raise Malformed("row %d is not sound: %s" % (number, ",".join(fields)[:80]))
        rows.append(row)
    return facts, rows


def row_is_sound(row):
    try:
        int(row["bytes"]), int(row["threads"]), int(row["rounds"]), int(row["held_bytes"] or 0)
        least, middle, most = (float(row[key]) for key in ("least", "median", "most")) if not row["note"] else (0, 0, 0)
    except ValueError:
        return False
    return bool(row["contender"]) and -1e12 < least <= middle <= most < 1e12


def chosen_of(place, only):
    """The contenders to measure, and those that cannot be measured here."""
    wanted = [c for c in contenders() if any(text in c.name for text in only.split("|"))]
    for contender in wanted:
        contender.absent = place.absent(contender)
    return [c for c in wanted if not c.absent], [c for c in wanted if c.absent]


def write(out, facts, chosen, left_out, whole):
    """The CSV as it stands; its rows."""
    rows = list(records(chosen))
    versions = {}
    for contender in chosen:
        versions.setdefault(contender.version or "unknown", []).append(contender.name)
    facts = facts + [("version", "%s: %s" % (version, "; ".join(names))) for version, names in versions.items()] + [
        ("left out", "%s: %s" % (c.name, c.absent)) for c in left_out] + [("whole rounds", whole)]
    csv_write(os.path.join(out, "gpu-bench.csv"), facts, rows)
    return rows


def run(build, sim, quietest, rounds, limit, out, full, only, arguments):
    """The whole table. 0: something was measured; 1: nothing; 2: wrong use."""
    begin = time.monotonic()
    place = Place(build, sim, quietest)
    if not sim and not os.path.exists(os.path.join(place.programs, "contend")):
        subprocess.run([os.path.join(HERE, "build_contenders")], env=dict(os.environ, BUILD=build), stdout=sys.stderr)
    chosen, left_out = chosen_of(place, only)
    if not chosen + left_out:
        print("bench: no contender has %s in its name" % only, file=sys.stderr)
        return 2
    os.makedirs(out, exist_ok=True)
    facts, whole = head(place, arguments), 0
    print("%s; %s" % (facts[0][1], facts[1][1]), flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for _ in range(rounds if chosen else 0):
            if not round_run(place, chosen, whole, 0.2 if sim else 2, begin + limit - min(RESERVE_S, limit / 2)):
                break
            whole += 1
            write(out, facts, chosen, left_out, whole)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    rows = write(out, facts, chosen, left_out, whole)
    print("medians of %d whole rounds in %.0f s, and half of least to most in per cent; %s" % (
        whole, time.monotonic() - begin, os.path.join(out, "gpu-bench.csv")))
    sections_print(chosen, by_cell(rows))
    notes_print(chosen, left_out)
    if full:
        full_print(rows)
    return 0 if any(c.values for c in chosen) else 1
