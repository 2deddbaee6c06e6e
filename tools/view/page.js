// page.js - draws a view from the JSON that stands in the page (model_json.c writes it).
//
// Texts of the trace reach the page as text alone: every element is made by make(), which never
// takes markup. The slider's moments are those of data.map.moments; everything that shows a moment
// is drawn by moment_show().
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const by_call = data.axis === "call";
const series = data.series, map = data.map, totals = data.totals;
const at = (id) => document.getElementById(id);

// --- words and figures -----------------------------------------------------------------------

function bytes_text(bytes) {
  if (bytes === null) return "not known";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, value = bytes;
  while (value >= 1024 && unit < 5) { value /= 1024; unit++; }
  return (unit === 0 ? String(value) : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)) +
    " " + units[unit];
}

function time_text(ns) {
  if (ns === null) return "not known";
  for (const [least, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns < least) continue;
    const value = ns / least;
    return (value >= 1000 ? value.toFixed(0) : value.toPrecision(4)) + " " + unit;
  }
  return ns + " ns";
}

const count_text = (count) => count === null ? "not known" : count.toLocaleString("en-US");
const share_text = (share) => (100 * share).toFixed(1) + " %";
const position_text = (position) => by_call ? "event " + count_text(position) : time_text(position);
const external = (free, largest) => free > 0 ? 1 - largest / free : 0;
const internal = (live, blocks) => blocks > 0 ? 1 - live / blocks : 0;
const caller_text = (caller) => caller.module === "unknown" && caller.place === "unknown" ? "unknown" : caller.module + "  " + caller.place;

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, then] of Object.entries(value)) element.addEventListener(event, then);
    else if (name === "style") for (const [property, to] of Object.entries(value)) element.style.setProperty(property, to);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// figure: its place in the JSON, for whoever compares the two.
function tile(name, text, note, figure) {
  const value = make("dd", { text });
  if (figure) value.dataset.figure = figure;
  const box = make("div", {}, make("dt", { text: name }), value);
  if (note) box.append(make("dd", { text: note }));
  return box;
}

function legend(element, entries) {
  element.replaceChildren(...entries.map(([name, swatch, open]) =>
    make("span", { text: name, class: open ? "open" : "", style: { "--swatch": swatch } })));
}

function table(element, heads, rows) {
  const cell = (tag, content, number, wide) => {
    const kinds = [number ? "number" : "", wide ? "wide" : ""].join(" ").trim();
    return content instanceof Node ? content : make(tag, kinds ? { text: content, class: kinds } : { text: content });
  };
  const head = heads.map(([name, number]) => make("th", { text: name, scope: "col", class: number ? "number" : "" }));
  element.replaceChildren(
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((content, i) => cell("td", content, heads[i][1], heads[i][2]))))));
}

// --- the head --------------------------------------------------------------------------------

function head_show() {
  const name = data.program || data.trace;
  document.title = name + " – vramalloc view";
  at("title").textContent = name;
  const about = [data.form === "csv" ? "a CSV of allocations" : "trace " + data.trace];
  if (data.pid !== null) about.push("pid " + data.pid);
  if (data.host) about.push("on " + data.host);
  if (data.start_unix_ns !== null) about.push(new Date(data.start_unix_ns / 1e6).toISOString().slice(0, 19).replace("T", " ") + " UTC");
  for (const device of data.devices) about.push("GPU " + device.number + ": " + device.name + ", " + bytes_text(device.bytes));
  at("subtitle").textContent = about.join(" · ");
  const notices = [];
  if (data.cut_ns !== null) notices.push("The trace stopped at " + time_text(data.cut_ns) + ", before the program did: " + count_text(data.lost_events) + " events are missing.");
  else if (data.lost_events > 0) notices.push(count_text(data.lost_events) + " events could not be recorded: what is shown is less than what happened.");
  if (!data.ended) notices.push("The program was killed or still ran: the trace ends with its last record.");
  if (data.form === "csv") notices.push("A CSV does not say who called, what the pool held or how it was set.");
  else if (!data.knows_held) notices.push("The pool took no memory from the driver in this trace: the map shows the addresses that the driver gave.");
  at("notices").replaceChildren(...notices.map((text) => make("p", { class: "notice", text })));
}

function tiles_show() {
  const list = [
    tile("Peak live", bytes_text(totals.peak_live_bytes), "at " + time_text(totals.peak_live_ns) + ", " + count_text(totals.peak_live_blocks) + " blocks", "totals.peak_live_bytes"),
    tile("Driver alone would need", bytes_text(totals.peak_footprint_bytes), "at " + time_text(totals.peak_footprint_ns) + ", as it packs", "totals.peak_footprint_bytes"),
  ];
  if (totals.peak_held_bytes !== null)
    list.splice(1, 0, tile("Peak held", bytes_text(totals.peak_held_bytes), "at " + time_text(totals.peak_held_ns), "totals.peak_held_bytes"));
  list.push(tile("Allocations", count_text(totals.allocations), bytes_text(totals.allocated_bytes) + " in all, over " + time_text(totals.duration_ns), "totals.allocations"));
  if (totals.wait_ns !== null)
    list.push(tile("Waits for the GPU", time_text(totals.wait_ns), count_text(totals.waits) + " of 1 µs and more; calls took " + time_text(totals.call_ns), "totals.wait_ns"));
  list.push(tile("Out of memory", count_text(totals.out_of_memory), totals.out_of_memory === null ? "a CSV does not say" : totals.out_of_memory > 0 ? "explained below" : "no request failed", "totals.out_of_memory"));
  list.push(tile("Live at the end", bytes_text(totals.end_live_bytes), count_text(totals.end_live_blocks) + " blocks", "totals.end_live_bytes"));
  at("tiles").replaceChildren(...list);
}

// --- canvases --------------------------------------------------------------------------------

// Sized to what the screen shows; drawn in the units of CSS.
function canvas_begin(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width, height };
}

// A round number of which `most` is four times or a little less.
function round_step(most, binary) {
  if (most <= 0) return 1;
  const base = binary ? 2 ** Math.floor(Math.log2(most / 4)) : 10 ** Math.floor(Math.log10(most / 4));
  return [1, 2, 2.5, 5, 10].map((factor) => base * factor).find((step) => most / step <= 5) || base * 10;
}

const margin = { left: 66, right: 10, top: 8, bottom: 22 };

// A chart: curves of { values, low, colour, fill, dash } over the buckets' positions.
function chart_make(id, curves, most, text, step) {
  const canvas = at(id);
  const end = totals.end_position || 1;
  let hover = null;
  const across = (width) => width - margin.left - margin.right;
  const left_of = (position, width) => margin.left + across(width) * Math.min(position / end, 1);

  function axes(pen, width, height) {
    pen.fillStyle = colour("quiet");
    pen.strokeStyle = colour("grid");
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (let value = 0; value <= most * 1.0001; value += step) {
      const y = top_of(value, height);
      pen.beginPath(); pen.moveTo(margin.left, y); pen.lineTo(width - margin.right, y); pen.stroke();
      pen.fillText(text(value), margin.left - 6, y);
    }
    pen.textBaseline = "alphabetic";
    const parts = width < 560 ? 2 : 5;
    for (let i = 0; i <= parts; i++) {
      pen.textAlign = i === 0 ? "left" : i === parts ? "right" : "center";
      pen.fillText(position_text(Math.round(end * i / parts)), left_of(end * i / parts, width), height - 5);
    }
  }
  const top_of = (value, height) => margin.top + (height - margin.top - margin.bottom) * (1 - Math.min(value / most, 1));

  // Each bucket is a step from its begin to its end.
  function trace(pen, values, width, height) {
    let from = 0;
    values.forEach((value, i) => {
      const y = top_of(value, height);
      pen.lineTo(left_of(from, width), y);
      from = series.position[i];
      pen.lineTo(left_of(from, width), y);
    });
  }

  function curve_draw(pen, curve, width, height) {
    const shade = colour(curve.colour);
    if (curve.low || curve.fill) {
      pen.beginPath();
      trace(pen, curve.values, width, height);
      if (curve.fill) { pen.lineTo(left_of(end, width), top_of(0, height)); pen.lineTo(margin.left, top_of(0, height)); }
      pen.closePath();
      pen.globalAlpha = 0.14;
      pen.fillStyle = shade;
      pen.fill();
      pen.globalAlpha = 1;
    }
    pen.beginPath();
    trace(pen, curve.values, width, height);
    pen.setLineDash(curve.dash || []);
    pen.strokeStyle = shade;
    pen.lineWidth = 1.6;
    pen.stroke();
    pen.setLineDash([]);
  }

  function line_at(pen, position, width, height, dash) {
    pen.beginPath();
    pen.moveTo(left_of(position, width), margin.top);
    pen.lineTo(left_of(position, width), height - margin.bottom);
    pen.setLineDash(dash);
    pen.strokeStyle = colour("cursor");
    pen.lineWidth = 1;
    pen.stroke();
    pen.setLineDash([]);
  }

  function draw() {
    const { pen, width, height } = canvas_begin(canvas);
    axes(pen, width, height);
    for (const curve of curves) curve_draw(pen, curve, width, height);
    pen.strokeStyle = colour("warn");
    for (const failure of data.failures) {
      const x = left_of(failure.position, width);
      pen.fillStyle = colour("warn");
      pen.beginPath(); pen.moveTo(x - 5, margin.top); pen.lineTo(x + 5, margin.top); pen.lineTo(x, margin.top + 9); pen.fill();
    }
    line_at(pen, map.moments[moment_now].position, width, height, []);
    if (hover !== null) line_at(pen, series.position[hover], width, height, [3, 3]);
    readout();
  }

  function readout() {
    const i = hover !== null ? hover : bucket_of(map.moments[moment_now].position);
    at(id + "-readout").textContent = "until " + position_text(series.position[i]) + ": " +
      curves.map((curve) => curve.name + " " + curve.text(i)).join(", ");
  }

  function position_at(event) {
    const box = canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left - margin.left) / across(box.width))) * end;
  }
  canvas.addEventListener("pointermove", (event) => { hover = bucket_of(position_at(event)); draw(); });
  canvas.addEventListener("pointerleave", () => { hover = null; draw(); });
  canvas.addEventListener("click", (event) => moment_show(moment_near(position_at(event))));
  return draw;
}

// The bucket that a position lies in.
function bucket_of(position) {
  let low = 0, high = series.position.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (series.position[middle] < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

function moment_near(position) {
  let best = 0;
  map.moments.forEach((moment, i) => {
    if (Math.abs(moment.position - position) < Math.abs(map.moments[best].position - position)) best = i;
  });
  return best;
}

// --- curves ----------------------------------------------------------------------------------

function memory_chart() {
  const known = [
    ["held", "held", "held from the driver", { fill: true }],
    ["blocks", "blocks", "in blocks", {}],
    ["live", "live", "live, as asked for", { fill: true }],
    ["footprint", "footprint", "the driver alone would need", { dash: [6, 3] }],
  ].filter(([name]) => series[name + "_max"]);
  const curves = known.map(([name, shade, title, more]) => ({
    name: title, colour: shade, values: series[name + "_max"], ...more,
    text: (i) => series[name + "_min"][i] === series[name + "_max"][i] ? bytes_text(series[name + "_max"][i])
      : bytes_text(series[name + "_min"][i]) + " to " + bytes_text(series[name + "_max"][i]),
  }));
  const top = Math.max(...curves.map((curve) => Math.max(...curve.values)));
  const step = round_step(top, true);
  legend(at("memory-legend"), known.map(([, shade, title]) => [title, "var(--" + shade + ")"]));
  at("memory").setAttribute("aria-label", "Memory over time. " + [
    "Live: at most " + bytes_text(totals.peak_live_bytes),
    totals.peak_held_bytes !== null ? "held: at most " + bytes_text(totals.peak_held_bytes) : null,
    "the driver alone would need at most " + bytes_text(totals.peak_footprint_bytes)].filter(Boolean).join("; ") + ".");
  let note = "Each of the " + series.position.length + " steps shows its highest value. What the driver alone would need is computed by its packing rule, not measured.";
  if (totals.peak_forwarded_bytes > 0) note += " Blocks that the driver served itself (at most " + bytes_text(totals.peak_forwarded_bytes) + ") count in all four.";
  if (data.devices.length > 1) note += " All GPUs are added up.";
  at("memory-note").textContent = note + " Click in the curve to see the arena at that moment.";
  return chart_make("memory", curves, Math.max(step, Math.ceil(top / step) * step), bytes_text, step);
}

function fragmentation_chart() {
  const inside = series.live_max.map((live, i) => internal(live, series.blocks_max[i]));
  const curves = [{ name: "internal", colour: "internal", values: inside, text: (i) => share_text(inside[i]) }];
  let note = "Internal: the part of all blocks that is rounding.";
  if (series.free) {
    const outside = series.free.map((free, i) => external(free, series.largest_free[i]));
    curves.unshift({
      name: "external", colour: "external", values: outside, fill: true,
      text: (i) => share_text(outside[i]) + " (largest free run " + bytes_text(series.largest_free[i]) + " of " + bytes_text(series.free[i]) + " free)",
    });
    note = "External: the part of the held and free memory that is outside its largest run, at each step's end. " +
      "Free is all between live blocks, with free slots of slabs and what still waits for the GPU. " + note;
  } else {
    note += " External fragmentation is not known, since the trace does not say what was held.";
  }
  legend(at("fragmentation-legend"), curves.map((curve) => [curve.name, "var(--" + curve.colour + ")"]));
  at("fragmentation").setAttribute("aria-label", "Fragmentation over time: " + curves.map((curve) => curve.name + " at most " + share_text(Math.max(...curve.values))).join("; ") + ".");
  at("fragmentation-note").textContent = note;
  const most = Math.max(0.02, ...curves.map((curve) => Math.max(...curve.values)));
  const step = round_step(most, false);
  return chart_make("fragmentation", curves, Math.ceil(most / step - 1e-9) * step, share_text, step);
}

// --- the arena -------------------------------------------------------------------------------

const size_steps = [[8 << 10, "to 8 KiB: slots of slabs"], [64 << 10, "to 64 KiB"], [1 << 20, "to 1 MiB"], [16 << 20, "to 16 MiB"], [256 << 20, "to 256 MiB"], [Infinity, "larger"]];
const age_steps = [[1e3, "to 1 ms old"], [1e4, "to 10 ms"], [1e5, "to 100 ms"], [1e6, "to 1 s"], [1e7, "to 10 s"], [Infinity, "older"]];
const kinds = 8;
let moment_now = 0;
let arena = null; // what is drawn: { moment, segments, blocks, rows, row_bytes }

function cells_read(text) {
  const cells = [];
  for (const [, level, letters] of text.matchAll(/(\d)([a-z]*)/g)) {
    let more = 0;
    for (const letter of letters) more = more * 26 + letter.charCodeAt(0) - 97;
    for (let i = 0; i <= more; i++) cells.push(Number(level));
  }
  return cells;
}

// Indices of the items that are there at a moment, by address.
function items_at(items, moment) {
  const there = [];
  for (let i = 0; i < items.first.length; i++)
    if (items.first[i] <= moment && moment < items.last[i]) there.push(i);
  return there.sort((a, b) => items.offset[a] - items.offset[b]);
}

// The segments of a moment stand one behind the other on a ribbon, which is wrapped into rows.
function arena_at(moment) {
  const cells = cells_read(map.moments[moment].cells);
  let ribbon = 0, cell = 0;
  const segments = items_at(map.segments, moment).map((index) => {
    const bytes = map.segments.bytes[index], count = Math.ceil(bytes / map.cell_bytes);
    const segment = { index, bytes, offset: map.segments.offset[index], ribbon, cells: cells.slice(cell, cell + count) };
    ribbon += bytes;
    cell += count;
    return segment;
  });
  const blocks = [];
  let s = 0;
  for (const index of items_at(map.blocks, moment)) {
    const offset = map.blocks.offset[index];
    while (s < segments.length && segments[s].offset + segments[s].bytes <= offset) s++;
    if (s < segments.length && segments[s].offset <= offset)
      blocks.push({ index, segment: segments[s], bytes: map.blocks.bytes[index], ribbon: segments[s].ribbon + offset - segments[s].offset });
  }
  return { moment, segments, blocks, bytes: ribbon };
}

const most_mapped = (() => {
  let most = 1;
  const change = new Array(map.moments.length + 1).fill(0);
  map.segments.first.forEach((first, i) => { change[first] += map.segments.bytes[i]; change[map.segments.last[i]] -= map.segments.bytes[i]; });
  change.reduce((sum, bytes) => { most = Math.max(most, sum + bytes); return sum + bytes; }, 0);
  return most;
})();

function block_colour(block) {
  const how = at("colour").value;
  if (how === "caller") {
    const caller = map.blocks.caller[block.index];
    return "kind" + (caller === null ? kinds - 1 : Math.min(caller_rank[caller], kinds - 1));
  }
  const age = map.moments[moment_now].time_ns / 1e3 - map.blocks.born_us[block.index];
  const value = how === "age" ? age : block.bytes;
  return "step" + (how === "age" ? age_steps : size_steps).findIndex(([most]) => value <= most);
}

// Callers by what they hold at the peak.
const caller_rank = (() => {
  const rank = [];
  data.callers.map((caller, i) => [caller.peak_bytes, i]).sort((a, b) => b[0] - a[0]).forEach(([, i], place) => { rank[i] = place; });
  return rank;
})();

function map_legend() {
  const how = at("colour").value;
  const entries = how === "caller"
    ? data.callers.map((caller, i) => [caller_rank[i], caller_text(caller)]).filter(([rank]) => rank < kinds - 1).sort((a, b) => a[0] - b[0])
      .map(([rank, name]) => [name, "var(--kind" + rank + ")"]).concat([["others", "var(--kind" + (kinds - 1) + ")"]])
    : (how === "age" ? age_steps : size_steps).map(([, name], i) => [name, "var(--step" + i + ")"]);
  entries.push([map.by === "segment" ? "held and free" : "no live block", "var(--free)", true]);
  if (map.least_block_bytes > 0) entries.push(["blocks below " + bytes_text(map.least_block_bytes), "var(--shade)"]);
  legend(at("map-legend"), entries);
}

// Draws [from, from + bytes) of the ribbon; a piece that goes on in the next row is cut there.
function ribbon_fill(pen, layout, from, bytes, gap) {
  const end = from + bytes;
  for (let row = Math.floor(from / layout.row_bytes); row * layout.row_bytes < end; row++) {
    const begin = Math.max(from, row * layout.row_bytes), until = Math.min(end, (row + 1) * layout.row_bytes);
    const left = (begin - row * layout.row_bytes) / layout.row_bytes * layout.width;
    const right = (until - row * layout.row_bytes) / layout.row_bytes * layout.width;
    const wide = right - left;
    pen.fillRect(left, row * layout.row_height, wide > 2 ? wide - gap : Math.max(wide, 0.4), layout.row_height - 2);
  }
}

function map_draw() {
  const canvas = at("map");
  const { pen, width, height } = canvas_begin(canvas);
  const rows = Math.max(1, Math.floor(height / 15));
  const layout = { width, row_height: height / rows, row_bytes: most_mapped / rows };
  arena.layout = layout;
  pen.fillStyle = colour("free");
  for (const segment of arena.segments) ribbon_fill(pen, layout, segment.ribbon, segment.bytes, 0);
  if (map.least_block_bytes > 0) shade_draw(pen, layout);
  const shades = new Map();
  for (const block of arena.blocks) {
    const name = block_colour(block);
    if (!shades.has(name)) shades.set(name, colour(name));
    pen.fillStyle = shades.get(name);
    ribbon_fill(pen, layout, block.ribbon, block.bytes, 0.6);
  }
  pen.fillStyle = colour("cursor");
  for (const segment of arena.segments) {
    const row = Math.floor(segment.ribbon / layout.row_bytes);
    pen.fillRect((segment.ribbon / layout.row_bytes - row) * width, row * layout.row_height, 1.2, layout.row_height - 2);
  }
  if (arena.chosen) {
    pen.globalAlpha = 0.85;
    pen.fillStyle = colour("cursor");
    ribbon_fill(pen, layout, arena.chosen.ribbon, arena.chosen.bytes, 0.6);
    pen.globalAlpha = 1;
  }
}

// Blocks too small to be kept one by one: how full each cell is.
function shade_draw(pen, layout) {
  pen.fillStyle = colour("shade");
  for (const segment of arena.segments) {
    segment.cells.forEach((level, i) => {
      if (level === 0) return;
      const begin = i * map.cell_bytes;
      pen.globalAlpha = level / 9;
      ribbon_fill(pen, layout, segment.ribbon + begin, Math.min(map.cell_bytes, segment.bytes - begin), 0);
    });
  }
  pen.globalAlpha = 1;
}

function address_text(segment, offset) {
  return "0x" + (BigInt(map.segments.address[segment.index]) + BigInt(Math.round(offset))).toString(16);
}

function block_text(block) {
  const caller = map.blocks.caller[block.index];
  const age = Math.max(0, map.moments[moment_now].time_ns - map.blocks.born_us[block.index] * 1000);
  return "Block of " + bytes_text(block.bytes) + " at " + address_text(block.segment, block.ribbon - block.segment.ribbon) +
    ", " + time_text(Math.round(age)) + " old, by " + (caller === null ? "unknown" : caller_text(data.callers[caller])) +
    (data.knows_callers ? ", thread " + map.blocks.thread[block.index] : "");
}

function piece_show(block) {
  arena.chosen = block;
  at("map-piece").textContent = block ? block_text(block) : "";
  map_draw();
}

function piece_at(event) {
  const canvas = at("map"), box = canvas.getBoundingClientRect(), layout = arena.layout;
  const row = Math.floor((event.clientY - box.top) / layout.row_height);
  const place = row * layout.row_bytes + (event.clientX - box.left) / layout.width * layout.row_bytes;
  const block = arena.blocks.find((other) => other.ribbon <= place && place < other.ribbon + other.bytes);
  if (block) return piece_show(block);
  piece_show(null);
  const segment = arena.segments.find((other) => other.ribbon <= place && place < other.ribbon + other.bytes);
  if (segment) {
    const level = segment.cells[Math.floor((place - segment.ribbon) / map.cell_bytes)];
    at("map-piece").textContent = address_text(segment, place - segment.ribbon) + " in the segment of " + bytes_text(segment.bytes) + " at " +
      map.segments.address[segment.index] + ": no block shown here; of the " + bytes_text(map.cell_bytes) + " around it " +
      (level === 0 ? "nothing" : level === 9 ? "all" : "about " + Math.round((level - 0.5) / 8 * 100) + " %") + " is in blocks";
  }
}

function map_keys(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 20, ArrowUp: -20 }[event.key];
  if (event.key === "Escape") piece_show(null);
  if (step === undefined || arena.blocks.length === 0) return;
  event.preventDefault();
  const now = arena.chosen ? arena.blocks.indexOf(arena.chosen) : step > 0 ? -1 : arena.blocks.length;
  piece_show(arena.blocks[Math.max(0, Math.min(arena.blocks.length - 1, now + step))]);
}

function moment_tables() {
  table(at("segments"), [["address"], ["GPU", true], ["bytes", true], ["in blocks, about", true]], arena.segments.slice(0, 200).map((segment) => [
    map.segments.address[segment.index], String(map.segments.device[segment.index]), bytes_text(segment.bytes),
    share_text(segment.cells.reduce((sum, level) => sum + (level === 0 ? 0 : level === 9 ? 1 : (level - 0.5) / 8), 0) / Math.max(1, segment.cells.length))]));
  const large = [...arena.blocks].sort((a, b) => b.bytes - a.bytes).slice(0, 20);
  table(at("largest"), [["bytes", true], ["address"], ["age", true], ["caller", false, true]], large.map((block) => {
    const caller = map.blocks.caller[block.index];
    return [bytes_text(block.bytes), address_text(block.segment, block.ribbon - block.segment.ribbon),
      time_text(Math.round(Math.max(0, map.moments[moment_now].time_ns - map.blocks.born_us[block.index] * 1000))),
      caller === null ? "unknown" : caller_text(data.callers[caller])];
  }));
}

function moment_show(index) {
  moment_now = index;
  const moment = map.moments[index], slider = at("moment");
  const where = "map.moments." + index + ".";
  slider.value = String(index);
  const what = { peak: "peak of live memory", "out of memory": "out of memory", end: "end", regular: "" }[moment.why];
  at("moment-time").textContent = position_text(moment.position) + (what ? " (" + what + ")" : "");
  slider.setAttribute("aria-valuetext", at("moment-time").textContent + ", live " + bytes_text(moment.live_bytes));
  const list = [
    tile("live", bytes_text(moment.live_bytes), null, where + "live_bytes"),
    tile("live blocks", count_text(moment.live_blocks), null, where + "live_blocks"),
    tile("in blocks", bytes_text(moment.blocks_bytes), null, where + "blocks_bytes"),
    tile("driver would need", bytes_text(moment.footprint_bytes), null, where + "footprint_bytes"),
  ];
  if (moment.held_bytes !== null)
    list.splice(3, 0, tile("held", bytes_text(moment.held_bytes), null, where + "held_bytes"),
      tile("free runs", count_text(moment.free_runs), null, where + "free_runs"),
      tile("largest free run", bytes_text(moment.largest_free_bytes), null, where + "largest_free_bytes"),
      tile("external", share_text(external(moment.free_bytes, moment.largest_free_bytes))));
  at("moment-figures").replaceChildren(...list);
  arena = arena_at(index);
  at("map").setAttribute("aria-label", "The arena at " + at("moment-time").textContent + ": " + arena.segments.length + " segments of " +
    bytes_text(arena.bytes) + ", " + count_text(moment.live_blocks) + " live blocks. Arrow keys go from block to block.");
  piece_show(null);
  moment_tables();
  for (const draw of charts) draw();
}

function arena_begin() {
  const slider = at("moment");
  slider.max = String(map.moments.length - 1);
  slider.addEventListener("input", () => moment_show(Number(slider.value)));
  at("colour").addEventListener("change", () => { map_legend(); map_draw(); });
  at("map").addEventListener("pointermove", piece_at);
  at("map").addEventListener("pointerdown", piece_at);
  at("map").addEventListener("keydown", map_keys);
  const jump = (name, index) => make("button", { type: "button", text: name, on: { click: () => moment_show(index) } });
  const step = (name, by, label) => make("button", { type: "button", text: name, "aria-label": label,
    on: { click: () => moment_show(Math.max(0, Math.min(map.moments.length - 1, moment_now + by))) } });
  const jumps = [step("◀", -1, "One moment back"), step("▶", 1, "One moment on")];
  let failures = 0;
  map.moments.forEach((moment, i) => {
    if (moment.why === "peak") jumps.push(jump("Peak", i));
    if (moment.why === "out of memory") jumps.push(jump("Failure " + ++failures, i));
  });
  if (map.by === "segment") {
    const scattered = map.moments.map((moment) => moment.free_bytes - moment.largest_free_bytes);
    jumps.push(jump("Most scattered", scattered.indexOf(Math.max(...scattered))));
  }
  jumps.push(jump("End", map.moments.length - 1));
  at("jumps").replaceChildren(...jumps);
  const notes = [map.by === "segment"
    ? "Segments stand in the order of their addresses, each begins with a dark line."
    : "The trace does not say what was held: the map shows every 2 MiB of addresses that any of its blocks touches, ranges in the order of addresses."];
  notes.push("There are " + map.moments.length + " moments: where nothing changed none, and the peak among them. Blocks that lived between two moments are not on the map.");
  if (map.least_block_bytes > 0) notes.push("Blocks below " + bytes_text(map.least_block_bytes) + " are too many: they show as shade, not one by one.");
  if (map.segments_left_out > 0) notes.push(count_text(map.segments_left_out) + " segments are not on the map.");
  if (map.blocks_left_out > 0) notes.push(count_text(map.blocks_left_out) + " blocks lie outside the map.");
  if (totals.peak_forwarded_bytes > 0) notes.push("Blocks that the driver served itself are not on it.");
  at("map-note").textContent = notes.join(" ");
  map_legend();
}

// --- failures --------------------------------------------------------------------------------

function failures_show() {
  at("failures-section").hidden = !totals.out_of_memory;
  const list = data.failures.map((failure, i) => {
    const moment = map.moments.findIndex((other) => other.why === "out of memory" && other.position === failure.position);
    const article = make("article", {},
      make("h3", { text: bytes_text(failure.bytes) + " refused at " + time_text(failure.time_ns) + ", thread " + failure.thread + ", by " + caller_text(failure) }),
      make("p", { text: failure.explanation, "data-failure": String(i) }),
      make("p", { class: "quiet", text: "Live " + bytes_text(failure.live_bytes) + (failure.held_bytes !== null ? ", held " + bytes_text(failure.held_bytes) +
        ", free " + bytes_text(failure.free_bytes) + " with a largest run of " + bytes_text(failure.largest_free_bytes) : "") +
        (failure.card_bytes !== null ? ", card " + bytes_text(failure.card_bytes) : "") }));
    if (moment >= 0) article.append(make("button", { type: "button", text: "Show the arena then",
      on: { click: () => { moment_show(moment); at("arena-title").scrollIntoView(); at("moment").focus(); } } }));
    return article;
  });
  if (totals.out_of_memory > list.length) list.push(make("p", { class: "quiet", text: "and " + count_text(totals.out_of_memory - list.length) + " more" }));
  at("failures").replaceChildren(...list);
}

// --- callers ---------------------------------------------------------------------------------

function flame_show() {
  const weight = at("weight").value, amount = weight === "calls" ? count_text : bytes_text;
  const modules = new Map();
  for (const caller of data.callers) {
    const module = modules.get(caller.module) || { total: 0, callers: [] };
    module.total += caller[weight];
    module.callers.push(caller);
    modules.set(caller.module, module);
  }
  if (data.other_callers[weight] > 0) modules.set("others", { total: data.other_callers[weight], callers: [] });
  const sorted = [...modules].sort((a, b) => b[1].total - a[1].total).filter(([, module]) => module.total > 0);
  const total = sorted.reduce((sum, [, module]) => sum + module.total, 0);
  const rows = [make("div"), make("div"), make("div")];
  const box = (row, name, from, size, shade, detail) => {
    const text = (detail || name) + ": " + amount(size) + ", " + share_text(total > 0 ? size / total : 0);
    const show = () => { at("flame-piece").textContent = text; };
    rows[row].append(make("button", { type: "button", text: name, "aria-label": text, title: text, on: { focus: show, pointerenter: show, click: show },
      class: size < total / 40 ? "narrow" : "",
      style: { left: 100 * from / total + "%", width: 100 * size / total + "%", background: shade } }));
  };
  at("flame-piece").textContent = total > 0 ? "" : "nothing";
  if (total > 0) box(0, "all", 0, total, "#56627a");
  let from = 0;
  sorted.forEach(([name, module], i) => {
    box(1, name, from, module.total, "hsl(" + (212 + 47 * i) % 360 + " 46% 40%)");
    let left = from;
    for (const caller of module.callers.sort((a, b) => b[weight] - a[weight])) {
      if (caller[weight] < total / 2000) break;
      box(2, caller.place, left, caller[weight], "hsl(" + (212 + 47 * i) % 360 + " 40% 34%)", caller_text(caller));
      left += caller[weight];
    }
    from += module.total;
  });
  at("flame").replaceChildren(...(total > 0 ? rows : []));
}

// --- tables ----------------------------------------------------------------------------------

function holders_show() {
  const holders = data[at("when").value];
  const when = at("when").value === "holders_at_peak" ? totals.peak_live_ns : totals.duration_ns;
  table(at("holders"), [["in all", true], ["blocks", true], ["of", true], ["oldest", true], [data.knows_callers ? "caller" : "thread and size", false, true]],
    holders.largest.map((holder) => [bytes_text(holder.total_bytes), count_text(holder.blocks), bytes_text(holder.block_bytes),
      time_text(Math.max(0, when - holder.oldest_ns)), caller_text(holder)]));
}

function sizes_show() {
  const most = Math.max(1, ...data.sizes.map((size) => size.allocations)), most_bytes = Math.max(1, ...data.sizes.map((size) => size.bytes));
  table(at("sizes"), [["from", true], ["allocations", true], ["bytes", true], ["live at peak", true], ["allocations (wide), bytes (narrow)"]],
    data.sizes.map((size) => [bytes_text(size.from_bytes), count_text(size.allocations), bytes_text(size.bytes), count_text(size.live_at_peak),
      make("td", { class: "bar" }, make("i", { style: { width: 100 * size.allocations / most + "%" } }), make("i", { style: { width: 100 * size.bytes / most_bytes + "%" } }))]));
}

function settings_show() {
  at("settings").replaceChildren(data.settings.length === 0 ? make("p", { class: "quiet", text: "The trace does not carry them." })
    : make("ul", {}, ...data.settings.map((setting) => make("li", {}, make("code", { text: setting })))));
}

// --- all of it -------------------------------------------------------------------------------

const charts = [];
head_show();
tiles_show();
charts.push(memory_chart(), fragmentation_chart());
arena_begin();
failures_show();
flame_show();
holders_show();
sizes_show();
settings_show();
moment_show(Math.max(0, map.moments.findIndex((moment) => moment.why === "peak")));
at("weight").addEventListener("change", flame_show);
at("when").addEventListener("change", holders_show);
const redraw = () => { for (const draw of charts) draw(); map_draw(); };
window.addEventListener("resize", redraw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.documentElement.dataset.ready = "1";
