'use strict';
// Draws the trace of this page. Times are nanoseconds; a piece is a stretch in which a job has its CPUs.
const FILLS = ['#0072b2', '#e69f00', '#009e73', '#56b4e9', '#cc79a7', '#f0e442', '#999999'];
const LOCKED_OUT = '#d55e00', ASLEEP = '#9ecae1', OTHER = '#888888';
const REASONS = ['still running', 'preempted', 'suspended', 'migrated', 'finished', 'blocked'];
const OUTCOMES = ['unfinished', 'completed', 'budget used', 'overrun', 'aborted', 'exited', 'skipped'];
const HAS_DEADLINE = 8, CUT_OFF = 16, HAS_HANDLER = 32, MISSED = 64, OF_HANDLER = 8;
/** Cut off, overrun, aborted or skipped. */
const isCut = how => how & CUT_OFF || (how & 7) === 3 || (how & 7) === 4 || (how & 7) === 6;
const LEFT_LEAST = 90, AXIS = 22, OVERVIEW = 16, TOP = AXIS + OVERVIEW + 4, CPU_ROW = 24, TASK_ROW = 34, GROUP_ROW = 18, CURVE_ROW = 40, OTHER_ROW = 9;
const errors = [];
addEventListener('error', event => errors.push(String(event.message)));
addEventListener('unhandledrejection', event => errors.push(String(event.reason)));

/** The exact text of a time, in the largest unit that takes at most three decimals. */
function text(ns) {
  const sign = ns < 0 ? '-' : '', value = Math.abs(Math.round(ns));
  if (value === 0) return '0s';
  const [name, unit, digits] = [['s', 1e9, 9], ['ms', 1e6, 6], ['us', 1e3, 3], ['ns', 1, 0]].find(([, unit]) => value >= unit && (unit < 1e6 || value % (unit / 1000) === 0));
  const rest = String(value % unit).padStart(digits, '0').replace(/0+$/, '');
  return sign + Math.floor(value / unit) + (digits && rest ? '.' + rest : '') + name;
}
/** The largest unit that no time exceeds by its size, for a table in one unit. */
function unitOf(times) {
  const most = times.reduce((most, ns) => isNaN(ns) ? most : Math.max(most, Math.abs(ns)), 0);
  return [['s', 1e9, 9], ['ms', 1e6, 6], ['us', 1e3, 3], ['ns', 1, 0]].find(([, unit]) => most >= unit) || ['ns', 1, 0];
}
/** The exact number of a time in this unit. */
function exact(ns, [, unit, digits]) {
  if (isNaN(ns)) return '-';
  const value = Math.abs(Math.round(ns)), rest = digits ? '.' + String(value % unit).padStart(digits, '0') : '';
  return (ns < 0 ? '-' : '') + Math.floor(value / unit) + rest.replace(/\.?0+$/, '');
}
/** A time with four digits. */
function short(ns) {
  const size = Math.abs(ns);
  if (size < 1000) return text(ns);
  const [name, unit] = [['s', 1e9], ['ms', 1e6], ['us', 1e3]].find(([, unit]) => size >= unit);
  return String(Number((ns / unit).toPrecision(4))) + name;
}
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
/** The first index whose value is not below `value`. */
function lower(values, value, from = 0, to = values.length) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] < value) from = middle + 1; else to = middle;
  }
  return from;
}

// --- reading ---------------------------------------------------------------------------------------------------

async function unpacked(base64) {
  let raw;
  if (Uint8Array.fromBase64) raw = Uint8Array.fromBase64(base64);
  else {
    const binary = atob(base64);
    raw = new Uint8Array(binary.length);
    for (let i = 0; i < raw.length; i++) raw[i] = binary.charCodeAt(i);
  }
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
/** Numbers of variable length. Times are multiples of a unit, which becomes smaller at `cuts`: places and units. */
class Column {
  constructor(bytes, cuts) { this.bytes = bytes; this.at = 0; this.cuts = cuts; this.cut = 0; this.unit = 1; this.read = 0; this.next = cuts.length ? cuts[0][0] : Infinity; }
  get more() { return this.at < this.bytes.length; }
  unsigned() {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, scale = 128;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte & 128);
    return value;
  }
  signed() {
    const value = this.unsigned();
    if (value < 0x80000000) return (value >>> 1) ^ -(value & 1);
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
  optional() {
    const value = this.unsigned();
    return value ? value - 1 : null;
  }
  fit() {
    if (this.read < this.next) return;
    while (this.cut < this.cuts.length && this.cuts[this.cut][0] <= this.read) this.unit = this.cuts[this.cut++][1];
    this.next = this.cut < this.cuts.length ? this.cuts[this.cut][0] : Infinity;
  }
  scale() {
    this.fit();
    this.read++;
    return this.unit;
  }
  /** The next numbers, which are instants if they are `timed`. One by one they would take twice as long. */
  many(count, signed, timed, found = new Float64Array(count)) {
    const bytes = this.bytes;
    let at = this.at;
    for (let i = 0; i < count;) {
      if (timed) this.fit();
      const unit = timed ? this.unit : 1, end = timed ? Math.min(count, i + this.next - this.read) : count;
      if (timed) this.read += end - i;
      for (; i < end; i++) {
        let byte = bytes[at++];
        if (byte < 128) {
          found[i] = (signed ? (byte >>> 1) ^ -(byte & 1) : byte) * unit;
          continue;
        }
        let value = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
          byte = bytes[at++];
          value += (byte & 127) * scale;
        }
        if (!signed) found[i] = value * unit;
        else if (value < 0x80000000) found[i] = ((value >>> 1) ^ -(value & 1)) * unit;
        else found[i] = (value % 2 ? -(value + 1) / 2 : value / 2) * unit;
      }
    }
    this.at = at;
    return found;
  }
  /** A difference of instants. */
  time() { const unit = this.scale(); return this.signed() * unit; }
  length() { const unit = this.scale(); return this.unsigned() * unit; }
  /** A length after an instant, or nothing. */
  after(from) {
    const unit = this.scale(), value = this.optional();
    return value === null ? NaN : from + value * unit;
  }
}
async function read(id) {
  const holder = document.getElementById(id);
  if (!holder) return null;
  const about = JSON.parse(holder.textContent);
  holder.remove();
  const all = await Promise.all(about.names.map(name => {
    const column = document.getElementById(`${id}-${name}`);
    column.remove();
    return unpacked(column.textContent);
  }));
  const c = Object.fromEntries(about.names.map((name, i) => [name, new Column(all[i], about.units.map(([unit, places]) => [places[i], unit]))]));
  const n = about.pieces;
  const t = {about, end: about.end, n, start: new Float64Array(n), stop: new Float64Array(n), decided: null, task: new Uint32Array(n),
    place: new Uint16Array(n), job: new Float64Array(n), how: new Uint8Array(n)};
  readPieces(t, c);
  const pieces = lists(about.tasks.length, n, t.task, about.tasks.map((_, task) => [task]));
  readJobs(t, c, pieces);
  // Spans of tasks, in the order of their starts.
  const spans = (prefix, resource) => {
    const by = about.tasks.map(() => []), task = c[prefix + 'Task'], begin = c[prefix + 'From'], length = c[prefix + 'Length'];
    for (let from = 0; task.more;) {
      from += begin.time();
      const of = task.unsigned();
      by[of].push({task: of, resource: resource(c[prefix + 'Resource']), from, to: from + length.length()});
    }
    for (const list of by) if (list.some((span, i) => i && span.from < list[i - 1].from)) list.sort((a, b) => a.from - b.from);
    return by;
  };
  t.waits = spans('w', column => column.optional());
  t.holds = spans('h', column => column.unsigned());
  t.overdue = spans('o', () => null).map((list, task) => about.tasks[task].signals ? list : []);
  t.behind = spans('x', () => null);
  t.grants = about.tasks.map(() => []);
  for (let at = 0, numbers = about.tasks.map(() => 0); c.bTask.more;) {
    const task = c.bTask.unsigned();
    at += c.bAt.time();
    t.grants[task].push({at, job: numbers[task] += c.bJob.signed(), amount: c.bAmount.optional()});
  }
  t.samples = about.samples.map(([kind, label, unit]) => ({kind, label, unit, times: [], values: []}));
  for (let at = 0; c.sOf.more;) {
    const {times, values} = t.samples[c.sOf.unsigned()];
    times.push(at += c.sAt.time());
    values.push(c.sValue.signed());
  }
  t.windows = [];
  for (let at = 0, frame = 0; c.iFrom.more;) {
    at += c.iFrom.time();
    frame += c.iFrame.signed();
    if (t.windows.length) t.windows.at(-1).to = at;
    t.windows.push({window: c.iNumber.unsigned(), frame, from: at, to: t.end});
  }
  const most = Math.max(-1, ...about.places.flat());
  const lanes = lists(most + 1, n, t.place, about.places);
  t.cpus = lanes.map((list, cpu) => ({cpu, ...lane(t, list)})).filter(lane => lane.list.length);
  return t;
}
/** Values at these indexes. */
function inOrder(values, order) {
  const found = new values.constructor(order.length);
  for (let i = 0; i < found.length; i++) found[i] = values[order[i]];
  return found;
}
/** Pieces are written at their stops, and are kept in the order of their starts. */
function readPieces(t, c) {
  const {n, about} = t, free = new Float64Array(about.places.length), numbers = new Float64Array(about.tasks.length);
  const order = new Uint32Array(n), {start, stop, task, place, job, how} = t;
  c.pTask.many(n, false, false, task);
  c.pPlace.many(n, false, false, place);
  c.pHow.many(n, false, false, how);
  const starts = c.pStart.many(n, true, true), lengths = c.pLength.many(n, false, true), decided = c.pDecided.many(n, false, true), jobs = c.pJob.many(n, true);
  let early = null, sorted = true;
  for (let i = 0; i < n; i++) {
    const of = task[i], from = start[i] = free[place[i]] + starts[i];
    stop[i] = free[place[i]] = from + lengths[i];
    if (decided[i] > 0) early = decided;
    job[i] = numbers[of] += jobs[i];
    // As many pieces have a later start and an earlier stop as there are CPUs, at most.
    let k = i;
    while (k > 0 && (start[order[k - 1]] > from || start[order[k - 1]] === from && task[order[k - 1]] > of)) { order[k] = order[k - 1]; k--; }
    if (k < i) sorted = false;
    order[k] = i;
  }
  if (!sorted) {
    for (const key of ['start', 'stop', 'task', 'place', 'job', 'how']) t[key] = inOrder(t[key], order);
    if (early) early = inOrder(early, order);
  }
  // When the policy had decided.
  t.decided = early ? t.start.map((start, i) => start - early[i]) : t.start;
}
/** Jobs are written when they are over, and are kept by their numbers. The lanes of tasks are made in the same pass over their pieces. */
function readJobs(t, c, pieces) {
  const {about} = t;
  t.lanes = [];
  t.jobs = about.jobs.map((count, task) => ({task, number: new Float64Array(count), release: new Float64Array(count), deadline: new Float64Array(count).fill(NaN),
    end: new Float64Array(count).fill(NaN), over: new Float64Array(count), how: new Uint8Array(count), known: new Float64Array(count), consumed: new Float64Array(count).fill(NaN),
    handler: new Map(), pieces: pieces[task], filled: 0, sorted: true}));
  const numbers = new Float64Array(about.tasks.length), releases = numbers.slice(), periods = numbers.slice(), relatives = numbers.slice();
  const all = about.jobs.reduce((sum, count) => sum + count, 0), tasks = c.jTask.many(all, false, false, new Uint32Array(all));
  const hows = c.jHow.many(all, false, false, new Uint8Array(all));
  let due = 0, over = 0;
  for (let i = 0; i < all; i++) {
    if (hows[i] & HAS_DEADLINE) due++;
    if (hows[i] & 7) over++;
  }
  const follows = c.jNumber.many(all, true), distances = c.jRelease.many(all, true, true), known = c.jKnown.many(all, false, true);
  const deadlines = c.jDeadline.many(due, true, true), ends = c.jEnd.many(over, true, true), consumed = c.jConsumed.many(over, true);
  due = over = 0;
  for (let k = 0; k < all; k++) {
    const task = tasks[k], j = t.jobs[task], i = j.filled++;
    const number = j.number[i] = numbers[task] += follows[k] + 1;
    if (i && number < j.number[i - 1]) j.sorted = false;
    const release = j.release[i] = releases[task] += periods[task] += distances[k];
    j.known[i] = release + known[k];
    j.how[i] = hows[k];
    if (hows[k] & HAS_DEADLINE) j.deadline[i] = release + (relatives[task] += deadlines[due++]);
    // The distances from the last piece of the job, and from the time for which it ran, which follow below.
    if (hows[k] & 7) { j.end[i] = ends[over]; j.consumed[i] = consumed[over++]; }
  }
  for (const j of t.jobs) {
    const count = j.number.length;
    if (!j.sorted) {
      const order = Array.from(j.number.keys()).sort((a, b) => j.number[a] - j.number[b]);
      for (const key of ['number', 'release', 'deadline', 'end', 'how', 'known', 'consumed']) j[key] = inOrder(j[key], order);
    }
    const last = j.release.slice(), ran = new Float64Array(count), of = emptyLane(j.pieces);
    t.lanes.push(of);
    const {pieces} = j;
    for (let k = 0, i = 0; k < pieces.length; k++) {
      const p = pieces[k], from = t.start[p], to = t.stop[p];
      of.starts[k] = from;
      of.ran[k + 1] = of.ran[k] + to - from;
      if (t.how[p] & OF_HANDLER) continue;
      // Mostly it is of the job of the piece before, or of the next job.
      if (j.number[i] !== t.job[p] && j.number[++i] !== t.job[p]) i = indexOf(j, t.job[p]);
      if (i >= 0) { last[i] = to; ran[i] += to - from; }
    }
    const signals = about.tasks[j.task].signals;
    for (let i = 0; i < count; i++) {
      const outcome = j.how[i] & 7;
      if (outcome) { j.end[i] += last[i]; j.consumed[i] = ran[i] - j.consumed[i]; }
      j.over[i] = outcome ? j.end[i] : t.end;
      const cut = signals && (outcome === 2 || outcome === 3);
      if (cut) j.how[i] |= CUT_OFF;
      if (cut || outcome === 3 || outcome === 4 || outcome === 6 || (outcome ? j.end[i] > j.deadline[i] : j.deadline[i] <= t.end)) j.how[i] |= MISSED;
    }
  }
  for (let from = 0; c.aTask.more;) {
    const j = t.jobs[c.aTask.unsigned()], i = indexOf(j, c.aJob.unsigned());
    from += c.aFrom.time();
    const handler = {from, deadline: c.aDeadline.after(from), end: c.aEnd.after(from)};
    if (i < 0) continue;
    j.handler.set(i, handler);
    j.how[i] |= HAS_HANDLER;
    j.over[i] = isNaN(handler.end) ? t.end : handler.end;
  }
  for (const j of t.jobs) j.missed = where(j, how => how & MISSED);
}
/** The indexes of pieces by lane: `lanes` has those of each key. */
function lists(count, n, keys, lanes) {
  const sizes = new Uint32Array(count);
  for (let i = 0; i < n; i++) {
    const of = lanes[keys[i]];
    for (let k = 0; k < of.length; k++) sizes[of[k]]++;
  }
  const found = Array.from(sizes, size => new Uint32Array(size));
  sizes.fill(0);
  for (let i = 0; i < n; i++) {
    const of = lanes[keys[i]];
    for (let k = 0; k < of.length; k++) found[of[k]][sizes[of[k]]++] = i;
  }
  return found;
}
/** The indexes of the jobs of a task with such an end. */
function where(jobs, test) {
  const found = [];
  for (let i = 0; i < jobs.how.length; i++) if (test(jobs.how[i])) found.push(i);
  return found;
}
/** Instants in ascending order, in a typed array. */
function ascending(times) {
  const all = Float64Array.from(times);
  for (let i = 1; i < all.length; i++) if (all[i] < all[i - 1]) return all.sort();
  return all;
}
/** A lane of pieces, for its starts and the time run before each piece. */
const emptyLane = list => ({list, starts: new Float64Array(list.length), ran: new Float64Array(list.length + 1)});
function lane(t, list) {
  const made = emptyLane(list), {starts, ran} = made;
  for (let k = 0; k < list.length; k++) {
    const p = list[k];
    starts[k] = t.start[p];
    ran[k + 1] = ran[k] + t.stop[p] - t.start[p];
  }
  return made;
}
function indexOf(jobs, number) {
  const guess = number - jobs.number[0];
  if (jobs.number[guess] === number) return guess;
  const index = lower(jobs.number, number);
  return jobs.number[index] === number ? index : -1;
}

// --- why was it late ---------------------------------------------------------------------------------------------

const OWN = 0, BEHIND = 1, STOLEN = 2, TASK = 3, EARLIER = 4, BLOCKING = 5, SLEEP = 6, SCHEDULER = 7, IDLE = 8;
/** Prepared once for all responses: the CPUs of each task, locks by resource, the end of all jobs up to each one. */
function causes(t) {
  if (t.causes) return t.causes;
  const used = t.about.tasks.map(() => new Set()), places = t.about.places;
  for (let p = 0; p < t.n; p++) used[t.task[p]].add(t.place[p]);
  const every = places.flat(), byCpu = new Map(t.cpus.map(lane => [lane.cpu, {...lane, latest: latest(lane.list, p => t.stop[p])}]));
  const homes = used.map(set => [...new Set(set.size ? [...set].flatMap(place => places[place]) : every)].sort((a, b) => a - b));
  const held = t.about.resources.map(() => []);
  for (const span of t.holds.flat()) held[span.resource].push(span);
  for (const list of held) list.sort((a, b) => a.from - b.from);
  const over = t.jobs.map(j => latest(j.over, value => value));
  return t.causes = {homes, byCpu, held, over, preempts: preempts(t)};
}
/** Pairs of tasks of which a job of the first one started on the CPUs from which a job of the second one had been preempted, before that resumed. */
function preempts(t) {
  const found = new Set(), preempted = new Map();
  for (let p = 0; p < t.n; p++) {
    const task = t.task[p], place = t.place[p];
    preempted.delete(task);
    for (const [other, from] of preempted) if (from === place) found.add(task * 2 ** 21 + other);
    if ((t.how[p] & 7) === 1) preempted.set(task, place);
  }
  return found;
}
/** Whether a less urgent job than this one locked a resource before its release, and the job did not start before the unlock. */
function isRaised(t, j, index, hold) {
  const {preempts} = causes(t), {list, starts} = t.lanes[j.task];
  if (hold.task === j.task || hold.from >= j.release[index] || hold.to <= j.release[index]) return false;
  for (let k = Math.max(0, lower(starts, j.release[index]) - 1); k < list.length && t.decided[list[k]] < hold.to; k++) {
    if (t.job[list[k]] === j.number[index] && t.stop[list[k]] > j.release[index]) return false;
  }
  const others = t.lanes[hold.task], k = lower(others.starts, hold.from + 1) - 1, holder = k >= 0 ? indexOf(t.jobs[hold.task], t.job[others.list[k]]) : -1;
  const own = j.deadline[index], other = holder >= 0 ? t.jobs[hold.task].deadline[holder] : NaN;
  return t.about.has_deadline_order && !isNaN(own) && !isNaN(other) ? own < other : preempts.has(j.task * 2 ** 21 + hold.task) && !preempts.has(hold.task * 2 ** 21 + j.task);
}
/** The highest value up to each member. */
function latest(list, value) {
  const found = new Float64Array(list.length);
  for (let k = 0, most = 0; k < list.length; k++) found[k] = most = Math.max(most, value(list[k]));
  return found;
}
/** Divides the response of a job by its causes, by the rules of `takt trace why`. */
function why(t, task, index) {
  const {homes, byCpu, held, over} = causes(t), j = t.jobs[task], number = j.number[index], release = j.release[index];
  const end = Math.max(release, isNaN(j.end[index]) ? t.end : j.end[index]), candidates = homes[task], changes = [];
  const add = (from, to, state, value, more) => {
    from = Math.max(from, release);
    to = Math.min(to, end);
    if (from < to) changes.push({at: from, begins: 1, state, value, more}, {at: to, begins: 0, state, value, more});
  };
  add(release, j.known[index], 'unknown');
  if (index) add(release, over[task][index - 1], 'earlier');
  const {list, starts} = t.lanes[task];
  let first = lower(starts, release);
  while (first > 0 && t.stop[list[first - 1]] > release) first--;
  for (let k = first; k < list.length && t.decided[list[k]] < end; k++) {
    const p = list[k], own = t.job[p] === number;
    add(t.start[p], t.stop[p], own ? 'own' : 'earlierRuns');
    if (own) add(t.decided[p], t.start[p], 'decided');
  }
  for (const span of t.behind[task]) add(span.from, span.to, 'behind');
  for (const wait of t.waits[task]) {
    if (wait.from >= end) break;
    const from = Math.max(wait.from, release), to = Math.min(wait.to, end);
    if (from >= to) continue;
    add(from, to, 'waits', wait.resource);
    if (wait.resource === null) continue;
    const others = held[wait.resource];
    for (let k = others.length - 1; k >= 0; k--) {
      const span = others[k];
      if (span.task !== task && span.from < to && span.to > from) add(Math.max(span.from, from), Math.min(span.to, to), 'held', wait.resource, span.task);
    }
  }
  held.forEach((list, resource) => {
    for (let k = lower(list.map(span => span.from), release) - 1; k >= 0; k--) if (isRaised(t, j, index, list[k])) add(list[k].from, list[k].to, 'raised', resource, list[k].task);
  });
  candidates.forEach((cpu, place) => {
    const lane = byCpu.get(cpu);
    if (!lane) return;
    for (let k = lower(lane.starts, end) - 1; k >= 0 && lane.latest[k] > release; k--) {
      const p = lane.list[k];
      if (t.task[p] !== task) add(t.start[p], t.stop[p], 'busy', place, t.task[p]);
    }
  });
  changes.sort((a, b) => a.at - b.at || a.begins - b.begins);
  const now = {own: 0, behind: 0, unknown: 0, decided: 0, earlier: 0, earlierRuns: 0, waits: [], held: [], raised: [], busy: candidates.map(() => [])}, parts = [];
  const sum = (cause, time, other = null, resource = null) => {
    const part = parts.find(part => part.cause === cause && part.other === other && part.resource === resource);
    if (part) part.time += time; else parts.push({cause, other, resource, time});
  };
  const waitsFor = (task, time) => {
    const raised = now.raised.find(([, by]) => by === task);
    if (raised) sum(BLOCKING, time, task, raised[0]); else sum(TASK, time, task);
  };
  const account = (from, to) => {
    const time = to - from, wait = now.waits.at(-1);
    if (now.own) return sum(now.behind ? BEHIND : OWN, time);
    if (now.unknown || now.decided) return sum(SCHEDULER, time);
    if (now.earlier && (now.earlierRuns || now.waits.length)) return sum(EARLIER, time);
    if (wait !== undefined && !now.earlier) {
      if (wait === null) return sum(SLEEP, time);
      const holder = now.held.find(([resource]) => resource === wait);
      return sum(BLOCKING, time, holder ? holder[1] : null, wait);
    }
    if (now.busy.length && now.busy.every(tasks => tasks.length)) {
      const count = now.busy.length, share = Math.floor(time / count);
      return now.busy.forEach((tasks, place) => waitsFor(tasks[0], share + (place < time % count ? 1 : 0)));
    }
    // The CPU on which the job continues.
    let on = -1;
    for (let k = lower(starts, to); k < list.length && t.job[list[k]] <= number; k++) {
      if (t.job[list[k]] !== number) continue;
      on = candidates.findIndex(cpu => t.about.places[t.place[list[k]]].includes(cpu));
      break;
    }
    const other = on >= 0 ? now.busy[on][0] : undefined;
    if (other !== undefined) waitsFor(other, time); else sum(now.earlier ? EARLIER : IDLE, time);
  };
  let at = release;
  for (const {at: then, begins, state, value, more} of changes) {
    if (at < then) { account(at, then); at = then; }
    if (['waits', 'held', 'raised', 'busy'].includes(state)) {
      const of = state === 'busy' ? now.busy[value] : now[state], entry = state === 'waits' ? value : state === 'busy' ? more : [value, more];
      if (begins) of.push(entry);
      else of.splice(of.findIndex(found => Array.isArray(found) ? found[0] === value && found[1] === more : found === entry), 1);
    } else now[state] += begins ? 1 : -1;
  }
  if (at < end) account(at, end);
  // With frequencies, consumed work is not time.
  const part = cause => parts.find(part => part.cause === cause), ran = (part(OWN)?.time ?? 0) + (part(BEHIND)?.time ?? 0);
  if (!t.about.has_speeds && ran > j.consumed[index]) {
    const stolen = Math.min(ran - j.consumed[index], part(OWN)?.time ?? 0);
    if (stolen) { sum(OWN, -stolen); sum(STOLEN, stolen); }
  }
  return parts.filter(part => part.time > 0).sort((a, b) => b.time - a.time || a.cause - b.cause || (a.other ?? -1) - (b.other ?? -1) || (a.resource ?? -1) - (b.resource ?? -1));
}

// --- lanes on demand ---------------------------------------------------------------------------------------------

/** The number of jobs that are released, not over, not running and wait for nothing. It holds until the next instant. */
function readyJobs(t) {
  const up = [], down = [];
  for (const j of t.jobs) {
    if (!j.number.length) continue;
    up.push(j.release);
    down.push(j.over);
    const own = j.pieces.filter(p => indexOf(j, t.job[p]) >= 0), waits = t.waits[j.task];
    up.push(Float64Array.from(own, p => t.stop[p]), Float64Array.from(waits, wait => wait.to));
    down.push(Float64Array.from(own, p => t.start[p]), Float64Array.from(waits, wait => wait.from));
  }
  const joined = lists => {
    const all = new Float64Array(lists.reduce((sum, list) => sum + list.length, 0));
    let at = 0;
    for (const list of lists) { all.set(list, at); at += list.length; }
    return all.sort();
  };
  const ups = joined(up), downs = joined(down), times = [0], values = [0];
  for (let u = 0, d = 0; u < ups.length || d < downs.length;) {
    const at = Math.min(ups[u] ?? Infinity, downs[d] ?? Infinity);
    while (ups[u] === at) u++;
    while (downs[d] === at) d++;
    const count = Math.max(0, u - d);
    if (times.at(-1) === at) values[values.length - 1] = count;
    else if (values.at(-1) !== count) { times.push(at); values.push(count); }
  }
  return {times, values, steps: true, words: String};
}
/** The budgets left of a task's jobs, which fall while they run. A gap has NaN. */
function budgetLeft(t, task) {
  const times = [], values = [], grants = t.grants[task], j = t.jobs[task], {list, starts} = t.lanes[task];
  const add = (at, value) => { times.push(at); values.push(value); };
  grants.forEach(({at, job, amount}, number) => {
    if (amount === null) { add(at, NaN); return; }
    const index = indexOf(j, job), over = index < 0 ? t.end : j.over[index], until = Math.min(over, grants[number + 1]?.at ?? Infinity);
    let left = amount;
    add(at, left);
    for (let k = Math.max(0, lower(starts, at) - 1); k < list.length && starts[k] < until; k++) {
      const p = list[k], from = Math.max(at, t.start[p]), to = Math.min(until, t.stop[p]);
      if (t.job[p] !== job || t.how[p] & 8 || to <= from) continue;
      add(from, left);
      left = Math.max(0, left - (to - from));
      add(to, left);
    }
    add(Math.max(at, until), left);
    add(Math.max(at, until), NaN);
  });
  return {times, values, steps: false, words: text};
}
/** The value of such a lane at an instant; NaN in a gap. */
function valueAt({times, values, steps}, at) {
  const k = lower(times, at + .5) - 1;
  if (k < 0) return NaN;
  if (steps || !(times[k + 1] > times[k])) return values[k];
  return values[k] + (values[k + 1] - values[k]) * (at - times[k]) / (times[k + 1] - times[k]);
}

// --- words -------------------------------------------------------------------------------------------------------

const name = (t, task) => t.about.tasks[task] ? t.about.tasks[task].name : '?';
function cause(t, part) {
  const resource = part.resource === null ? '' : t.about.resources[part.resource], other = part.other === null ? '' : name(t, part.other);
  return ['own work', 'work of an aborted job', 'stolen time and costs', 'waiting for ' + other, 'waiting for an earlier job of its task',
    other ? `blocked by ${other} on ${resource}` : 'blocked on ' + resource, 'asleep', 'lateness of the scheduler', 'not dispatched, CPU idle'][part.cause];
}
const cpus = (t, place) => {
  const set = t.about.places[place];
  return set.length ? (set.length > 1 ? 'CPUs ' : 'CPU ') + set.join(',') : 'kernel';
};
function jobText(t, task, i) {
  const j = t.jobs[task];
  if (!(i >= 0)) return name(t, task);
  const parts = [`${name(t, task)}#${j.number[i]}`, 'released ' + text(j.release[i])];
  if (!isNaN(j.deadline[i])) parts.push('deadline ' + text(j.deadline[i]));
  if (isNaN(j.end[i])) parts.push('not over at the end');
  else {
    parts.push(`${OUTCOMES[j.how[i] & 7]} ${text(j.end[i])}`, 'response ' + text(j.end[i] - j.release[i]));
    if (!isNaN(j.deadline[i])) parts.push('slack ' + text(j.deadline[i] - j.end[i]));
  }
  if (j.how[i] & MISSED) parts.push(isNaN(j.deadline[i]) ? 'missed' : 'deadline missed');
  return parts.join(', ');
}
function pieceText(t, p) {
  const i = indexOf(t.jobs[t.task[p]], t.job[p]), handler = t.how[p] & 8 ? 'handler ' : '';
  return `${jobText(t, t.task[p], i)}\n${handler}on ${cpus(t, t.place[p])} ${text(t.start[p])} to ${text(t.stop[p])} (${text(t.stop[p] - t.start[p])}), ${REASONS[t.how[p] & 7]}`;
}

// --- the page ----------------------------------------------------------------------------------------------------

async function main() {
  const begun = performance.now();
  const t = await read('trace'), other = await read('other');
  const diff = JSON.parse(document.getElementById('diff').textContent);
  const app = document.getElementById('app');
  const view = {from: 0, to: t.end || 1}, whole = {...view};
  let sort = 'file', row = -1, selected = null, mark = null, cursor = null, hover = null;

  const search = element('input', {id: 'search', type: 'search', placeholder: 'task, task#job or 12ms', ariaLabel: 'search'});
  const button = (label, title, act) => element('button', {type: 'button', title, textContent: label, onclick: act});
  const sorting = element('select', {id: 'sort', ariaLabel: 'order of tasks'});
  for (const order of ['file', 'name', 'misses', 'utilisation']) sorting.append(element('option', {value: order, textContent: 'tasks by ' + order}));
  const said = element('output', {id: 'said'});
  const isDark = () => (document.documentElement.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  const theme = () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    draw();
    fragment();
  };
  // The lanes on demand of which the trace has something.
  const onDemand = new Map(), lanes = new Set(), curves = new Map();
  const demand = (key, label, has) => {
    if (has) onDemand.set(key, button(label, 'show or hide these lanes', () => { lanes.has(key) ? lanes.delete(key) : lanes.add(key); pressed(); fragment(); }));
  };
  demand('ready', 'ready jobs', t.jobs.some(j => j.number.length));
  demand('budget', 'budgets left', t.grants.some(grants => grants.length));
  for (const [key, label] of [['frequency', 'frequencies'], ['temperature', 'temperatures'], ['round', 'rounds'], ['measured', 'measured values']]) {
    demand(key, label, t.samples.some(({kind}) => kind === key));
  }
  function pressed() {
    for (const [key, made] of onDemand) made.setAttribute('aria-pressed', String(lanes.has(key)));
    layout = rows();
    row = -1;
    resize();
  }
  function amount(value, unit) {
    return {kHz: () => `${value / 1000} MHz`, 'm°C': () => `${value / 1000} °C`, ns: () => text(value)}[unit]?.() ?? `${value} ${unit}`;
  }
  function curve(key, made) {
    if (!curves.has(key)) {
      const found = made();
      found.top = 1;
      for (const values of [found.values, found.planned?.values ?? []]) for (const value of values) if (value > found.top) found.top = value;
      curves.set(key, found);
    }
    return curves.get(key);
  }
  const bar = element('div', {id: 'bar'}, search, button('next miss', 'n; the one before: p', () => step('miss', 1)),
    button('next preemption', 'e; the one before: r', () => step('preemption', 1)));
  if (other) bar.append(button('next difference', 'x; the one before: y', () => step('difference', 1)));
  for (const made of onDemand.values()) { made.setAttribute('aria-pressed', 'false'); bar.append(made); }
  bar.append(sorting, button('whole trace', '0', () => show(whole.from, whole.to)), button('light or dark', '', theme), said);
  const verdict = element('div', {id: 'verdict'});
  if (diff) verdict.textContent = diff.text;
  if (!t.about.complete) verdict.append(' The trace has no end: its writer was interrupted.');
  const canvas = element('canvas', {ariaLabel: 'Chart of the trace. The tables below have its content as text.'});
  canvas.setAttribute('role', 'img');
  const spacer = element('div'), box = element('div', {id: 'view', tabIndex: 0}, canvas, spacer);
  box.setAttribute('aria-describedby', 'keys');
  const tip = element('div', {id: 'tip'});
  tip.setAttribute('role', 'status');
  const legend = element('div', {id: 'legend'}), detail = element('section', {id: 'detail'}), table = element('section', {id: 'tasks'}), listed = element('section', {id: 'listed'});
  const keys = element('p', {id: 'keys', textContent: 'Keys: w s zoom, a d move, 0 whole trace, arrows choose a task and a job, n p misses, e r preemptions, ' + (other ? 'x y differences, ' : '') + ', . < > move a cursor, m twice measures a span, / search. Mouse: wheel zooms, dragging chooses a range, a click shows a job, a click with Shift measures a span.'});
  app.append(bar, verdict, box, tip, legend, keys, element('div', {id: 'below'}, detail, table, listed));
  const g = canvas.getContext('2d', {alpha: false});
  // Pictures for comparisons have no text, since fonts differ between machines.
  const plain = new URLSearchParams(location.hash.slice(1)).has('picture');
  document.body.classList.toggle('picture', plain);
  const write = (words, px, py) => { if (!plain) g.fillText(words, px, py); };

  const utilisation = task => t.lanes[task].ran.at(-1);
  /** The rows from top to bottom: their kinds, heights and places. */
  function rows() {
    const made = [];
    if (t.about.switches.length) made.push({kind: 'switches', height: GROUP_ROW, label: 'policies'});
    if (t.windows.length) made.push({kind: 'windows', height: CPU_ROW, label: 'windows'});
    for (const lane of t.cpus) made.push({kind: 'cpu', height: CPU_ROW + (other ? OTHER_ROW : 0), lane, label: 'CPU ' + lane.cpu});
    const demanded = (label, found) => made.push({kind: 'curve', height: CURVE_ROW, label, curve: found});
    if (lanes.has('ready')) demanded('ready jobs', curve('ready', () => readyJobs(t)));
    for (const samples of t.samples) {
      if (!lanes.has(samples.kind)) continue;
      const label = {frequency: 'frequency of ', temperature: 'temperature of ', round: 'round of ', measured: ''}[samples.kind] + samples.label;
      const planned = t.samples.find(({kind, label}) => kind === 'planned' && samples.kind === 'round' && label === samples.label);
      demanded(label, curve(label, () => ({...samples, planned, steps: true, words: value => amount(value, samples.unit)})));
    }
    const groups = new Map();
    t.about.tasks.forEach((task, index) => {
      const key = sort === 'file' ? task.partition || '' : '';
      groups.set(key, [...(groups.get(key) || []), index]);
    });
    for (const [key, tasks] of groups) {
      if (key || groups.size > 1) made.push({kind: 'group', height: GROUP_ROW, label: key || 'no partition', lane: partition(key, tasks)});
      const by = {name: (a, b) => name(t, a) < name(t, b) ? -1 : 1, misses: (a, b) => t.jobs[b].missed.length - t.jobs[a].missed.length,
        utilisation: (a, b) => utilisation(b) - utilisation(a)}[sort];
      if (by) tasks.sort(by);
      for (const task of tasks) {
        made.push({kind: 'task', height: TASK_ROW + (other ? OTHER_ROW : 0), task, lane: t.lanes[task], label: name(t, task)});
        if (lanes.has('budget') && t.grants[task].length) demanded('budget of ' + name(t, task), curve('budget ' + task, () => budgetLeft(t, task)));
      }
    }
    let y = 0;
    for (const row of made) { row.y = y; y += row.height; }
    return {list: made, height: y};
  }
  /** The pieces of all tasks of a partition as one lane. */
  function partition(key, tasks) {
    const known = partition.known ||= new Map();
    if (!known.has(key)) known.set(key, lane(t, Uint32Array.from(tasks.flatMap(task => Array.from(t.lanes[task].list))).sort()));
    return known.get(key);
  }
  let missList = null, overview = {};
  let layout = rows(), left = LEFT_LEAST, right = 800, colours = {}, hatch = null, late = null, drawnRed = null, frames = [];

  const x = time => left + (time - view.from) / (view.to - view.from) * (right - left);
  const timeAt = px => view.from + (px - left) / (right - left) * (view.to - view.from);

  function pattern(colour, angle) {
    const tile = element('canvas', {width: 6, height: 6}), p = tile.getContext('2d');
    p.strokeStyle = colour;
    p.lineWidth = 1.6;
    p.beginPath();
    for (const shift of [-6, 0, 6]) { p.moveTo(shift, angle ? 0 : 6); p.lineTo(shift + 6, angle ? 6 : 0); }
    p.stroke();
    return g.createPattern(tile, 'repeat');
  }
  function resize() {
    box.style.height = Math.min(layout.height + TOP + 6, plain ? Infinity : innerHeight * .62) + 'px';
    const ratio = devicePixelRatio || 1, width = box.clientWidth, height = Math.min(box.clientHeight, layout.height + TOP + 4);
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    spacer.style.height = Math.max(0, layout.height + TOP + 4 - height) + 'px';
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = '12px system-ui, sans-serif';
    const widest = Math.max(...layout.list.map(row => g.measureText(row.label).width), 0);
    left = plain ? LEFT_LEAST : Math.min(Math.max(LEFT_LEAST, widest + 34), width / 3);
    right = width - 14;
    draw();
  }

  /** Bars of a lane; pieces below a pixel become load per column. */
  function bars(t, lane, y, height, colour, hatched, named) {
    const {list, starts, ran} = lane;
    let k = lower(starts, view.from);
    for (let back = 0; k > 0 && back < 64 && t.stop[list[k - 1]] > view.from; back++) k--;
    const per = (view.to - view.from) / (right - left);
    while (k < list.length && starts[k] < view.to) {
      const p = list[k], from = Math.max(left, x(starts[k])), to = Math.min(right, x(t.stop[p]));
      if (to - from >= 1) {
        g.fillStyle = colour(p);
        g.fillRect(from, y, to - from, height);
        if (hatched(p)) { g.fillStyle = hatch; g.fillRect(from, y, to - from, height); }
        if (t.how[p] & 8) { signs.add('handler'); g.fillStyle = colours.back; for (let line = 2; line < height; line += 4) g.fillRect(from, y + line, to - from, 1); }
        if (to - from > 4) { g.fillStyle = colours.back; g.fillRect(from, y, .8, height); }
        const label = named && !plain && to - from > 20 && !hatched(p) && !(t.how[p] & 8) ? name(t, t.task[p]) : '';
        if (label && g.measureText(label).width + 8 < to - from) {
          g.fillStyle = [0, 2].includes(t.task[p] % FILLS.length) ? '#fff' : '#000';
          g.textAlign = 'center';
          write(label, (from + to) / 2, y + height / 2 + 1);
        }
        k++;
        continue;
      }
      const column = Math.floor(from), next = timeAt(column + 1);
      let end = Math.max(lower(starts, next, k + 1), k + 1);
      // A wide piece that begins in this column is drawn by itself.
      if (end - 1 > k && x(t.stop[list[end - 1]]) - x(starts[end - 1]) >= 1) end--;
      const beyond = Math.max(0, t.stop[list[end - 1]] - next);
      const load = Math.min(1, Math.max(0, (ran[end] - ran[k] - beyond) / per));
      let same = true;
      for (let i = k, jump = Math.max(1, Math.floor((end - k) / 12)); i < end && same; i += jump) same = t.task[list[i]] === t.task[p];
      g.fillStyle = same ? colour(p) : colours.mixed;
      const high = Math.max(2, Math.round(load * height));
      g.fillRect(column, y + height - high, 1, high);
      k = end;
    }
  }
  /** The lines over the instants of a lane. The planned value is dashed. */
  function curveRow({curve: {times, values, planned, top, steps, words}, height}, y) {
    const at = value => y + height - 5 - value / top * (height - 12);
    g.fillStyle = colours.idle;
    g.fillRect(left, y + 3, right - left, height - 8);
    g.fillStyle = colours.faint;
    g.textAlign = 'left';
    write('≤ ' + words(top), 6, y + 27);
    g.save();
    g.beginPath(); g.rect(left, y, right - left, height); g.clip();
    if (planned) {
      g.strokeStyle = colours.faint;
      g.lineWidth = 1;
      g.setLineDash([5, 3]);
      curveLine(planned, steps, at);
      g.setLineDash([]);
    }
    g.strokeStyle = colours.focus;
    g.lineWidth = 1.3;
    curveLine({times, values}, steps, at);
    g.restore();
  }
  /** A line over instants; instants within a pixel are one vertical stroke. */
  function curveLine({times, values}, steps, at) {
    g.beginPath();
    let before = NaN;
    for (let k = Math.max(0, lower(times, view.from) - 1); k < times.length;) {
      const px = x(times[k]);
      if (isNaN(before)) g.moveTo(px, at(values[k]));
      else { if (steps) g.lineTo(px, at(before)); g.lineTo(px, at(values[k])); }
      let low = values[k], high = low;
      for (before = low, k++; k < times.length && !isNaN(before) && x(times[k]) - px < .5 && !isNaN(values[k]); k++) {
        before = values[k];
        low = Math.min(low, before);
        high = Math.max(high, before);
      }
      if (low < high) { g.lineTo(px, at(low)); g.lineTo(px, at(high)); g.lineTo(px, at(before)); }
      if (px > right) break;
    }
    if (steps && !isNaN(before)) g.lineTo(Math.min(right, x(t.end)), at(before));
    g.stroke();
  }
  function arrow(px, y, up, red) {
    const base = y + TASK_ROW - 5, top = y + 4;
    g.strokeStyle = g.fillStyle = red ? colours.red : colours.mark;
    g.lineWidth = red ? 2 : 1;
    g.beginPath();
    g.moveTo(px, top);
    g.lineTo(px, base);
    g.stroke();
    g.beginPath();
    const [tip, wing] = up ? [top - 2, top + 4] : [base + 1, base - 6];
    g.moveTo(px, tip);
    g.lineTo(px + 3, wing);
    g.lineTo(px - 3, wing);
    g.fill();
  }
  // The signs of the last picture, for the legend; and in a test the instants of all marks.
  const signs = new Set();
  let recorder = null;
  /** Marks at instants in ascending order, at most one in so many pixels. */
  function marks(times, gap, sign, mark) {
    for (let k = lower(times, view.from); k < times.length && times[k] <= view.to;) {
      const px = x(times[k]);
      mark(px, k);
      signs.add(sign);
      const next = Math.max(k + 1, lower(times, timeAt(px + gap), k + 1));
      if (recorder) for (; k < next && times[k] <= view.to; k++) recorder(sign, times[k]);
      k = next;
    }
  }
  function sorted(j, which) {
    j.cache ||= {};
    return j.cache[which] ||= (() => {
      if (which === 'release') return j.release;
      const instants = (test, at) => {
        const found = new Float64Array(j.how.length);
        let count = 0;
        for (let i = 0; i < j.how.length; i++) if (test(j.how[i]) && !isNaN(at[i])) found[count++] = at[i];
        return ascending(found.subarray(0, count));
      };
      return {
        deadline: () => instants(how => (how & (HAS_DEADLINE | MISSED)) === HAS_DEADLINE, j.deadline),
        miss: () => instants(how => how & MISSED, j.deadline),
        cut: () => instants(isCut, j.end),
        end: () => instants(how => (how & 7) === 1, j.end),
      }[which]();
    })();
  }
  // In a window table a release is a start; an arrow at each bar would say nothing. Jobs with deadlines have them there, too.
  function hasSigns(task) {
    const j = t.jobs[task];
    return j.how.length && (!t.windows.length || sorted(j, 'deadline').length + sorted(j, 'miss').length > 0);
  }
  // Whether the first visible pieces of a lane are narrower than an arrow.
  function narrow(lane) {
    const from = lower(lane.starts, view.from), some = lane.list.slice(from, from + 50).filter(p => t.start[p] < view.to);
    const wide = some.filter(p => x(t.stop[p]) - x(t.start[p]) >= 5).length;
    return some.length > 1 && wide * 2 < some.length;
  }
  function taskRow(r, y) {
    const j = t.jobs[r.task], base = y + TASK_ROW - 5, top = y + 10;
    g.strokeStyle = colours.line;
    g.beginPath(); g.moveTo(left, base + .5); g.lineTo(right, base + .5); g.stroke();
    let first = lower(j.release, view.from);
    for (let back = 0; first > 0 && back < 64 && j.over[first - 1] > view.from; back++) first--;
    const last = lower(j.release, view.to, first);
    if (last - first < 2 * (right - left)) {
      g.fillStyle = colours.wait;
      for (let i = first; i < last; i++) {
        const from = Math.max(left, x(j.release[i])), to = Math.min(right, x(j.over[i]));
        if (to > from) { g.fillRect(from, base - 4, Math.max(.5, to - from), 4); signs.add('released'); }
      }
    }
    const strips = (spans, at, height, colour, sign) => {
      let done = -1;
      for (const span of spans) {
        if (span.from >= view.to) break;
        const from = Math.max(left, x(span.from), done), to = Math.min(right, x(span.to));
        if (span.to <= view.from || to - from < .5) continue;
        done = to;
        g.fillStyle = colour(span);
        g.fillRect(from, at, to - from, height);
        signs.add(sign(span));
        if (span.resource !== null && spans === t.holds[r.task] && to - from > 2) {
          g.strokeStyle = colours.mark;
          g.lineWidth = .5;
          g.strokeRect(from, at, to - from, height);
        }
      }
    };
    strips(t.waits[r.task], base - 4, 4, span => span.resource === null ? ASLEEP : LOCKED_OUT, span => span.resource === null ? 'sleeps' : 'waits');
    bars(t, r.lane, top, base - top, () => FILLS[r.task % FILLS.length], p => t.task[p] >= FILLS.length);
    strips(t.holds[r.task], top - 4, 3, span => FILLS[span.resource % FILLS.length], span => 'holds ' + span.resource);
    const runsLate = (begin, end) => {
      const from = Math.max(left, x(begin)), to = Math.min(right, x(end));
      if (to - from < 1) return;
      signs.add('late');
      g.fillStyle = late;
      g.fillRect(from, top, to - from, base - top);
      g.strokeStyle = colours.red;
      g.lineWidth = 1;
      g.strokeRect(from + .5, top + .5, Math.max(0, to - from - 1), base - top - 1);
    };
    // In a window table, work that continues a job after it was cut off.
    for (const span of t.overdue[r.task]) {
      if (span.from >= view.to || span.to <= view.from) continue;
      let k = Math.max(0, lower(r.lane.starts, Math.max(span.from, view.from)) - 1);
      for (let drawn = 0; k < r.lane.list.length && r.lane.starts[k] < Math.min(span.to, view.to) && drawn < 4000; k++, drawn++) {
        const p = r.lane.list[k];
        if (!(t.how[p] & 8)) runsLate(Math.max(t.start[p], span.from), Math.min(t.stop[p], span.to));
      }
    }
    // Work after a missed deadline.
    if (j.missed.length) {
      let k = lower(r.lane.starts, view.from);
      for (let back = 0; k > 0 && back < 8; back++) k--;
      for (let drawn = 0; k < r.lane.list.length && r.lane.starts[k] < view.to && drawn < 4000; k++, drawn++) {
        const p = r.lane.list[k], i = indexOf(j, t.job[p]);
        if (i < 0 || !(j.how[i] & MISSED) || !(j.deadline[i] < t.stop[p]) || t.how[p] & 8) continue;
        runsLate(Math.max(t.start[p], j.deadline[i]), t.stop[p]);
      }
    }
    // Arrows that would overlap, or cover the bars between them, are ticks: releases above, deadlines below.
    const dense = last - first > (right - left) / 14 || r.lane.starts.length > 1 && narrow(r.lane);
    const tick = (colour, from, to) => px => { g.fillStyle = colour; g.fillRect(px, from, 1, to - from); };
    if (!hasSigns(r.task)) {
      // Only misses.
    } else if (dense) {
      marks(sorted(j, 'release'), 2, 'release tick', tick(colours.mark, y + 4, y + 8));
      marks(sorted(j, 'deadline'), 2, 'deadline tick', tick(colours.mark, base + 1, base + 4));
    } else {
      marks(sorted(j, 'release'), 3, 'release', px => arrow(px, y, true, false));
      marks(sorted(j, 'deadline'), 3, 'deadline', px => arrow(px, y, false, false));
      marks(sorted(j, 'end'), 3, 'completion', px => { g.fillStyle = colours.mark; g.beginPath(); g.arc(px, base, 2, 0, 7); g.fill(); });
    }
    marks(sorted(j, 'miss'), dense ? 2 : 4, dense ? 'miss tick' : 'miss', dense ? tick(colours.red, y + 2, base) : px => arrow(px, y, false, true));
    marks(sorted(j, 'cut'), 4, 'cut', px => {
      const middle = (top + base) / 2;
      g.strokeStyle = colours.red;
      g.lineWidth = 2;
      g.beginPath(); g.moveTo(px - 4, middle - 4); g.lineTo(px + 4, middle + 4); g.moveTo(px + 4, middle - 4); g.lineTo(px - 4, middle + 4); g.stroke();
    });
    if (other) {
      const of = other.about.tasks.findIndex(task => task.name === r.label);
      if (of >= 0) bars(other, other.lanes[of], base + 4, OTHER_ROW - 3, () => OTHER, () => false);
      marks(points(r.task), 2, 'difference', px => { g.fillStyle = colours.red; g.fillRect(px - 1, base + 3, 2, OTHER_ROW - 1); });
    }
  }
  const pointsOf = new Map();
  function points(task) {
    if (!pointsOf.has(task)) pointsOf.set(task, Float64Array.from(diff.points.filter(point => point[1] === task).map(point => point[0])).sort());
    return pointsOf.get(task);
  }

  /** Lines where policies are switched. Their names have a row of their own, the last ones first, so that none covers another. */
  function switches(height, scroll) {
    const r = layout.list.find(r => r.kind === 'switches');
    if (!r) return;
    const shown = t.about.switches.filter(([at]) => at >= view.from && at <= view.to), y = TOP + r.y - scroll + GROUP_ROW / 2;
    let free = Infinity, before = NaN;
    for (let k = shown.length - 1; k >= 0; k--) {
      const [at, words] = shown[k], px = x(at), same = shown.filter(([other]) => other === at).map(([, words]) => words).join(', ');
      signs.add('switch');
      if (recorder) recorder('switch', at, words);
      g.strokeStyle = colours.switch; g.setLineDash([6, 3]); g.lineWidth = 1.5;
      g.beginPath(); g.moveTo(px, TOP); g.lineTo(px, height); g.stroke();
      g.setLineDash([]);
      if (at === before || plain) continue;
      before = at;
      const wide = g.measureText(same).width, from = px + 4 + wide > right ? px - 4 - wide : px + 4;
      if (from + wide > free || from < left || r.y < scroll - 4) continue;
      g.fillStyle = colours.back;
      g.fillRect(from - 2, y - 8, wide + 4, 16);
      g.fillStyle = colours.switch; g.textAlign = 'left';
      write(same, from, y);
      free = from - 8;
    }
  }
  function draw() {
    const began = performance.now(), width = box.clientWidth, height = parseFloat(canvas.style.height);
    const style = getComputedStyle(document.documentElement);
    for (const key of ['back', 'text', 'faint', 'line', 'idle', 'wait', 'red', 'mark', 'focus', 'shade', 'mixed', 'switch']) colours[key] = style.getPropertyValue('--' + key).trim();
    if (colours.red !== drawnRed) { hatch = pattern('#0009', false); late = pattern(colours.red, true); drawnRed = colours.red; }
    g.fillStyle = colours.back;
    g.fillRect(0, 0, width, height);
    const scroll = box.scrollTop;
    signs.clear();
    // Round instants.
    const least = (view.to - view.from) * 90 / (right - left);
    let ticks = 1;
    for (const unit = 10 ** Math.floor(Math.log10(Math.max(1, least))); ;) { ticks = [1, 2, 5, 10].map(m => m * unit).find(v => v >= least) || 10 * unit; break; }
    g.textBaseline = 'middle';
    g.lineWidth = 1;
    for (let at = Math.ceil(view.from / ticks) * ticks; at <= view.to; at += ticks) {
      g.strokeStyle = colours.line;
      g.beginPath(); g.moveTo(Math.round(x(at)) + .5, AXIS - 4); g.lineTo(Math.round(x(at)) + .5, height); g.stroke();
      g.fillStyle = colours.faint;
      g.textAlign = 'center';
      write(text(at), Math.min(x(at), right - 12), AXIS / 2);
    }
    g.save();
    g.beginPath(); g.rect(0, TOP, width, height - TOP); g.clip();
    layout.list.forEach((r, index) => {
      const y = TOP + r.y - scroll;
      if (!recorder && (y > height || y + r.height < TOP)) return;
      if (index === row) { g.fillStyle = colours.shade; g.fillRect(0, y, width, r.height); }
      g.textAlign = 'left';
      g.fillStyle = r.kind === 'group' ? colours.faint : colours.text;
      let label = r.label;
      while (label.length > 1 && g.measureText(label).width > left - 30) label = label.slice(0, -2) + '…';
      write(label, r.kind === 'task' ? 22 : 6, y + (r.kind === 'task' ? TASK_ROW - 14 : r.kind === 'group' ? 9 : 12));
      if (r.kind === 'task') {
        g.fillStyle = FILLS[r.task % FILLS.length];
        g.fillRect(6, y + TASK_ROW - 20, 11, 11);
        if (r.task >= FILLS.length) { g.fillStyle = hatch; g.fillRect(6, y + TASK_ROW - 20, 11, 11); }
        taskRow(r, y);
      } else if (r.kind === 'cpu') {
        g.fillStyle = colours.idle;
        g.fillRect(left, y + 3, right - left, CPU_ROW - 7);
        bars(t, r.lane, y + 3, CPU_ROW - 7, p => FILLS[t.task[p] % FILLS.length], p => t.task[p] >= FILLS.length, true);
        const same = other && other.cpus.find(lane => lane.cpu === r.lane.cpu);
        if (same) bars(other, same, y + CPU_ROW - 2, OTHER_ROW - 3, p => FILLS[other.task[p] % FILLS.length], () => false);
      } else if (r.kind === 'group') {
        bars(t, r.lane, y + 4, GROUP_ROW - 8, p => FILLS[t.task[p] % FILLS.length], p => t.task[p] >= FILLS.length);
      } else if (r.kind === 'curve') {
        curveRow(r, y);
      } else if (r.kind === 'windows') {
        const first = Math.max(0, lower(t.windowStarts ||= t.windows.map(w => w.from), view.from) - 1);
        let done = -1;
        for (let k = first; k < t.windows.length && t.windows[k].from < view.to; k++) {
          const w = t.windows[k], from = Math.max(left, x(w.from), done), to = Math.min(right, x(w.to));
          if (to - from < 1) continue;
          done = to;
          g.fillStyle = w.window % 2 ? colours.shade : colours.idle;
          g.fillRect(from, y + 3, to - from, CPU_ROW - 7);
          if (to - from > 18) { g.fillStyle = colours.faint; g.textAlign = 'center'; write(w.window, (from + to) / 2, y + 12); }
        }
      }
    });
    switches(height, scroll);
    if (selected && selected.index >= 0) {
      const j = t.jobs[selected.task], r = layout.list.find(r => r.kind === 'task' && r.task === selected.task), i = selected.index;
      if (r) {
        g.strokeStyle = colours.focus; g.lineWidth = 2;
        const from = Math.max(left, x(j.release[i])), to = Math.min(right, x(j.over[i]));
        if (to >= left && from <= right) g.strokeRect(from, TOP + r.y - scroll + 1, Math.max(2, to - from), TASK_ROW - 2);
      }
    }
    if (cursor !== null) { g.strokeStyle = colours.faint; g.lineWidth = 1; g.setLineDash([2, 2]); g.beginPath(); g.moveTo(x(cursor), TOP); g.lineTo(x(cursor), height); g.stroke(); g.setLineDash([]); }
    for (const at of mark || []) { g.strokeStyle = colours.focus; g.lineWidth = 1; g.beginPath(); g.moveTo(x(at), TOP); g.lineTo(x(at), height); g.stroke(); }
    g.restore();
    // The whole trace, with the part that is shown.
    const part = time => left + (time - whole.from) / (whole.to - whole.from) * (right - left);
    g.fillStyle = colours.idle;
    g.fillRect(left, AXIS, right - left, OVERVIEW - 4);
    g.fillStyle = colours.red;
    if (overview.right !== right || overview.left !== left) {
      overview = {left, right, marks: []};
      for (const miss of misses()) { const px = Math.round(part(miss.at)); if (px !== overview.marks.at(-1)) overview.marks.push(px); }
    }
    for (const px of overview.marks) g.fillRect(px, AXIS, 1, OVERVIEW - 4);
    g.strokeStyle = colours.focus;
    g.lineWidth = 1.5;
    g.strokeRect(part(view.from), AXIS + .5, Math.max(3, part(view.to) - part(view.from)), OVERVIEW - 5);
    if (hover && hover.brush) {
      g.fillStyle = colours.focus + '44';
      g.fillRect(Math.min(hover.brush, hover.at), TOP, Math.abs(hover.at - hover.brush), height - TOP);
    }
    explain();
    frames.push(performance.now() - began);
  }

  // --- what is shown -----------------------------------------------------------------------------------------------

  function show(from, to, keep) {
    const least = Math.max(10, (whole.to - whole.from) * 1e-12);
    let span = Math.min(Math.max(to - from, least), (whole.to - whole.from) * 1.02);
    from = Math.min(Math.max(from, whole.from - (whole.to - whole.from) * .01), Math.max(whole.from, whole.to * 1.01 - span));
    view.from = from;
    view.to = from + span;
    draw();
    if (!keep) fragment();
    schedule();
  }
  /** Sets the first or the second end of a span. */
  function set(at) {
    mark = mark && mark.length === 1 ? [mark[0], at] : [at];
    measured();
    draw();
    fragment();
  }
  function measured() {
    if (mark && mark.length === 2) said.textContent = 'span ' + text(Math.round(Math.abs(mark[1] - mark[0])));
  }
  /** The keyboard's cursor begins at the selected job, or in the middle. */
  function point(by) {
    const job = selected && selected.index >= 0 ? t.jobs[selected.task].release[selected.index] : NaN;
    if (cursor === null || cursor < view.from || cursor > view.to) cursor = job >= view.from && job <= view.to ? job : Math.round((view.from + view.to) / 2);
    else cursor = Math.round(Math.min(view.to, Math.max(view.from, cursor + by * (view.to - view.from))));
    said.textContent = 'at ' + text(cursor);
    draw();
  }
  function zoom(factor, at) {
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  }
  function fragment() {
    const parts = [`from=${Math.round(view.from)}`, `to=${Math.round(view.to)}`];
    if (sort !== 'file') parts.push('sort=' + sort);
    if (document.documentElement.dataset.theme) parts.push('theme=' + document.documentElement.dataset.theme);
    if (mark) parts.push('mark=' + mark.map(Math.round).join(','));
    if (box.scrollTop) parts.push('scroll=' + Math.round(box.scrollTop));
    if (lanes.size) parts.push('lanes=' + [...lanes].join(','));
    if (selected) parts.push('task=' + encodeURIComponent(name(t, selected.task)), 'job=' + t.jobs[selected.task].number[selected.index]);
    history.replaceState(null, '', '#' + parts.join('&'));
  }
  function follow() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (['name', 'misses', 'utilisation'].includes(given.get('sort'))) { sort = sorting.value = given.get('sort'); layout = rows(); }
    if (['light', 'dark'].includes(given.get('theme'))) document.documentElement.dataset.theme = given.get('theme');
    mark = (given.get('mark') || '').split(',').filter(Boolean).map(Number).filter(at => !isNaN(at)).slice(0, 2);
    if (!mark.length) mark = null;
    measured();
    lanes.clear();
    for (const key of (given.get('lanes') || '').split(',')) if (onDemand.has(key)) lanes.add(key);
    pressed();
    const task = t.about.tasks.findIndex(task => task.name === given.get('task'));
    if (task >= 0) select(task, indexOf(t.jobs[task], Number(given.get('job'))), true);
    const [from, to] = [Number(given.get('from')), Number(given.get('to'))];
    if (given.has('from') && to > from) show(from, to, true);
    box.scrollTop = Number(given.get('scroll')) || 0;
    draw();
  }
  let waiting = 0, scrolled = 0;
  function schedule() {
    clearTimeout(waiting);
    waiting = setTimeout(list, 120);
  }

  // --- misses, preemptions, differences ------------------------------------------------------------------------------

  function misses() {
    return missList ||= t.jobs.flatMap(j => j.missed.map(i => ({task: j.task, index: i, at: isNaN(j.deadline[i]) ? j.over[i] : j.deadline[i]})))
      .sort((a, b) => a.at - b.at || a.task - b.task);
  }
  let preempted = null;
  const events = {
    miss: misses,
    preemption: () => preempted ||= Array.from(t.how.keys()).filter(p => (t.how[p] & 7) === 1).map(p => ({task: t.task[p], index: indexOf(t.jobs[t.task[p]], t.job[p]), at: t.stop[p]})).sort((a, b) => a.at - b.at || a.task - b.task),
    difference: () => diff ? diff.points.filter(point => point[1] !== null && point[1] !== undefined).map(point => ({task: point[1], index: indexOf(t.jobs[point[1]], point[2]), at: point[0], words: point[3]})) : [],
  };
  const positions = {};
  function step(kind, by) {
    const all = events[kind]();
    if (!all.length) { said.textContent = `no ${kind}`; return; }
    const next = positions[kind] === undefined ? (by > 0 ? 0 : all.length - 1) : (positions[kind] + by + all.length) % all.length;
    positions[kind] = next;
    const {task, index, at, words} = all[next];
    said.textContent = `${kind} ${next + 1} of ${all.length}: ${name(t, task)}${index >= 0 ? '#' + t.jobs[task].number[index] : ''} at ${text(at)}${words ? ', ' + words : ''}`;
    select(task, index, true);
    const j = t.jobs[task];
    const [from, to] = index >= 0 ? [Math.min(j.release[index], at), Math.max(j.over[index], at)] : [at - 1e6, at + 1e6];
    const margin = Math.max(to - from, 1000) * .4;
    reveal(task);
    show(from - margin, to + margin);
  }
  function reveal(task) {
    row = layout.list.findIndex(r => r.kind === 'task' && r.task === task);
    const r = layout.list[row], room = parseFloat(canvas.style.height) - TOP;
    if (!r) return;
    if (r.y < box.scrollTop) box.scrollTop = r.y;
    else if (r.y + r.height > box.scrollTop + room) box.scrollTop = r.y + r.height - room;
  }
  function find(words) {
    const time = words.match(/^([\d.]+)\s*(ns|us|ms|s)$/);
    if (time) {
      const at = Number(time[1]) * {ns: 1, us: 1e3, ms: 1e6, s: 1e9}[time[2]], span = Math.min(view.to - view.from, (whole.to - whole.from) / 10);
      show(at - span / 2, at + span / 2);
      said.textContent = 'at ' + text(at);
      return;
    }
    let [label, number] = [words, null];
    if (!t.about.tasks.some(task => task.name === words) && words.includes('#')) [label, number] = [words.slice(0, words.lastIndexOf('#')), Number(words.slice(words.lastIndexOf('#') + 1))];
    let task = t.about.tasks.findIndex(task => task.name === label);
    if (task < 0) task = t.about.tasks.findIndex(task => task.name.toLowerCase().includes(label.toLowerCase()));
    if (task < 0) { said.textContent = `no task ${label}`; return; }
    const index = number === null ? 0 : indexOf(t.jobs[task], number), j = t.jobs[task];
    if (!j.number.length || index < 0) { said.textContent = `no job ${words}`; reveal(task); draw(); return; }
    said.textContent = `${name(t, task)}#${j.number[index]}`;
    select(task, index, true);
    reveal(task);
    if (number !== null) {
      const margin = Math.max(j.over[index] - j.release[index], 1000) * .4;
      show(j.release[index] - margin, j.over[index] + margin);
    } else { draw(); fragment(); }
  }

  // --- a job, and the tables -------------------------------------------------------------------------------------------

  function cells(tag, values) {
    return element('tr', {}, ...values.map(value => element(tag, {textContent: value})));
  }
  function select(task, index, quiet) {
    selected = index >= 0 ? {task, index} : null;
    detail.replaceChildren();
    if (selected) {
      const j = t.jobs[task], number = j.number[index], parts = j.how[index] & MISSED ? why(t, task, index) : null;
      detail.append(element('h2', {textContent: `${name(t, task)}#${number}`}), element('p', {id: 'job', textContent: jobText(t, task, index)}));
      if (parts) {
        const sum = parts.reduce((sum, part) => sum + part.time, 0), divided = element('table', {id: 'why'}, cells('th', ['cause', 'time', 'share', '']));
        for (const part of parts) {
          const line = cells('td', [cause(t, part), text(part.time), (part.time * 100 / Math.max(1, sum)).toFixed(1) + ' %']), bar = element('span', {className: 'part'});
          bar.style.width = part.time * 120 / Math.max(1, sum) + 'px';
          line.append(element('td', {className: 'text'}, bar));
          divided.append(line);
        }
        divided.append(cells('td', ['response', text(sum), '100.0 %']));
        detail.append(element('h2', {textContent: 'Why was it late?'}), divided);
      }
      const life = [[j.release[index], 'released']];
      if (!isNaN(j.deadline[index])) life.push([j.deadline[index], 'deadline']);
      if (!isNaN(j.end[index])) life.push([j.end[index], OUTCOMES[j.how[index] & 7]]);
      const handler = j.handler.get(index);
      if (handler) life.push([handler.from, 'handler begins'], ...(isNaN(handler.end) ? [] : [[handler.end, 'handler over']]));
      for (const p of j.pieces) if (t.job[p] === number) life.push([t.start[p], `starts on ${cpus(t, t.place[p])}`], [t.stop[p], REASONS[t.how[p] & 7]]);
      for (const [spans, begin, end] of [[t.waits, 'waits for', 'is ready again'], [t.holds, 'locks', 'unlocks']]) {
        for (const span of spans[task]) {
          if (span.from < j.release[index] || span.from > j.over[index]) continue;
          const what = span.resource === null ? 'something outside' : t.about.resources[span.resource];
          life.push([span.from, `${begin} ${what}`], [span.to, spans === t.holds ? `${end} ${what}` : end]);
        }
      }
      life.sort((a, b) => a[0] - b[0]);
      const shown = life.slice(0, 200), unit = unitOf(shown.map(([at]) => at)), after = unitOf(shown.map(([at]) => at - j.release[index]));
      const table = element('table', {id: 'life'}, cells('th', ['event', `instant (${unit[0]})`, `after release (${after[0]})`]));
      for (const [at, words] of shown) table.append(cells('td', [words, exact(at, unit), exact(at - j.release[index], after)]));
      detail.append(element('h2', {textContent: 'Its life'}), table);
    }
    if (!quiet) { draw(); fragment(); }
  }
  function histogram(j) {
    const bins = new Array(12).fill(0);
    let most = 0, count = 0;
    for (let i = 0; i < j.how.length; i++) if ((j.how[i] & 7) === 1) { count++; most = Math.max(most, j.end[i] - j.release[i], 1); }
    if (!count) return '';
    for (let i = 0; i < j.how.length; i++) if ((j.how[i] & 7) === 1) bins[Math.min(11, Math.floor((j.end[i] - j.release[i]) * 12 / most))]++;
    const top = Math.max(...bins);
    return bins.map(count => count ? '▁▂▃▄▅▆▇█'[Math.min(7, Math.ceil(count * 8 / top) - 1)] : ' ').join('') + ' ≤ ' + short(most);
  }
  function tasks() {
    const columns = ['released', 'completed', 'met', 'missed', 'aborted', 'cut_off', 'activations', 'dispatches', 'preemptions', 'migrations'];
    const used = columns.filter(column => ['released', 'missed'].includes(column) || t.about.total[column]);
    const made = element('table', {id: 'counts'}, cells('th', ['task', ...used.map(column => column.replace('_', ' ')), 'response times']));
    const line = (label, counts, more) => cells('td', [label, ...used.map(column => counts.jobless && ['released', 'completed', 'met', 'missed', 'aborted', 'cut_off'].includes(column) ? '-' : counts[column]), more]);
    for (const r of layout.list) if (r.kind === 'task') {
      const made_line = line(r.label, t.about.tasks[r.task].counts, histogram(t.jobs[r.task]));
      if (t.jobs[r.task].missed.length) made_line.className = 'late';
      made.append(made_line);
    }
    made.append(line('all', t.about.total, ''));
    table.replaceChildren(element('h2', {textContent: 'Tasks'}), made);
  }
  function list() {
    const found = [];
    for (const r of layout.list) {
      if (r.kind !== 'task') continue;
      const j = t.jobs[r.task];
      for (let i = lower(j.release, view.from), count = 0; i < j.release.length && j.release[i] <= view.to && count < 60; i++, count++) found.push([j.release[i], r.task, i]);
    }
    // The first ones of all tasks.
    found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const more_jobs = found.splice(60).length > 0;
    const instants = unitOf(found.flatMap(([, task, i]) => [t.jobs[task].release[i], t.jobs[task].deadline[i], t.jobs[task].end[i]]));
    const responses = unitOf(found.map(([, task, i]) => t.jobs[task].end[i] - t.jobs[task].release[i]));
    const made = element('table', {id: 'jobs'}, cells('th', ['job', ...['release', 'deadline', 'end'].map(word => `${word} (${instants[0]})`), `response (${responses[0]})`, 'outcome']));
    for (const [, task, i] of found) {
      const j = t.jobs[task];
      const made_line = cells('td', [`${name(t, task)}#${j.number[i]}`, ...[j.release[i], j.deadline[i], j.end[i]].map(at => exact(at, instants)), exact(j.end[i] - j.release[i], responses), OUTCOMES[j.how[i] & 7] + (j.how[i] & MISSED ? ', missed' : '')]);
      if (j.how[i] & MISSED) made_line.className = 'late';
      made.append(made_line);
    }
    const more = [...t.about.switches.map(([at, words]) => [at, words]), ...t.about.calls.map(([at, task, job, words]) => [at, `${name(t, task)}#${job}: ${words}`]), ...t.about.changes];
    const others = element('table', {}, ...more.filter(([at]) => at >= view.from && at <= view.to).sort((a, b) => a[0] - b[0]).slice(0, 60).map(([at, words]) => cells('td', [words, text(at)])));
    listed.replaceChildren(element('h2', {textContent: 'Jobs released in this range' + (more_jobs ? ' (the first 60)' : '')}), made, others);
  }
  /** The legend of the signs that are drawn. */
  let explained = '';
  function explain() {
    const now = [...signs].sort().join();
    if (now === explained) return;
    explained = now;
    legend.replaceChildren();
    const add = (there, sign, words, colour) => {
      if (!there) return;
      const mark = element('b', {textContent: sign + ' '});
      if (colour) mark.style.color = colour;
      legend.append(element('span', {}, mark, words));
    };
    const has = sign => signs.has(sign);
    add(has('release'), '↑', 'release');
    add(!has('release') && has('release tick'), '╵', 'release');
    add(has('deadline'), '↓', 'deadline');
    add(!has('deadline') && has('deadline tick'), '╷', 'deadline');
    add(has('completion'), '●', 'completion');
    add(has('miss'), '↓', 'deadline missed', 'var(--red)');
    add(!has('miss') && has('miss tick'), '│', 'deadline missed', 'var(--red)');
    add(has('late'), '▨', 'runs late', 'var(--red)');
    add(has('cut'), '✕', 'cut off, aborted or skipped', 'var(--red)');
    add(has('released'), '▬', 'released, not running', 'var(--wait)');
    add(has('waits'), '▬', 'waits for a resource', LOCKED_OUT);
    add(has('sleeps'), '▬', 'sleeps', ASLEEP);
    t.about.resources.slice(0, FILLS.length).forEach((resource, index) => add(has('holds ' + index), '▬', 'holds ' + resource, FILLS[index]));
    add(t.about.resources.length > FILLS.length && [...signs].some(sign => sign.startsWith('holds ')), '…', 'colours of resources repeat');
    add(has('handler'), '▤', 'handler');
    add(has('switch'), '┆', 'policy switched', 'var(--switch)');
    add(other, '▬', 'other trace: ' + (other && other.about.heading), OTHER);
    add(has('difference'), '▮', 'difference', 'var(--red)');
  }

  // --- mouse and keys --------------------------------------------------------------------------------------------------

  function under(px, py) {
    const y = py - TOP + box.scrollTop, r = layout.list.find(r => y >= r.y && y < r.y + r.height);
    if (!r || py < TOP || px < left || px > right) return {row: r};
    const at = timeAt(px), slack = (view.to - view.from) / (right - left);
    if (r.kind === 'windows') return {row: r, at, window: t.windows[lower(t.windows.map(w => w.from), at + 1) - 1]};
    if (!r.lane) return {row: r, at};
    let k = lower(r.lane.starts, at + slack) - 1;
    for (let back = 0; k >= 0 && back < 8; back++, k--) {
      const p = r.lane.list[k];
      if (t.start[p] <= at + slack && t.stop[p] >= at - slack) return {row: r, at, piece: p};
    }
    if (r.kind !== 'task') return {row: r, at};
    const j = t.jobs[r.task];
    for (let i = lower(j.release, at + 1) - 1, back = 0; i >= 0 && back < 64; i--, back++) if (j.over[i] >= at) return {row: r, at, job: i};
    return {row: r, at};
  }
  const local = event => { const at = canvas.getBoundingClientRect(); return [event.clientX - at.left, event.clientY - at.top]; };
  box.addEventListener('mousemove', event => {
    const [px, py] = local(event);
    if (hover && hover.brush) { hover.at = px; draw(); return; }
    const found = under(px, py);
    let words = '';
    if (found.piece !== undefined) words = pieceText(t, found.piece);
    else if (found.job !== undefined) words = jobText(t, found.row.task, found.job) + '\nnot running at ' + text(Math.round(found.at));
    else if (found.window) words = `window ${found.window.window} of frame ${found.window.frame}: ${text(found.window.from)} to ${text(found.window.to)}`;
    else if (found.row && found.row.curve && found.at !== undefined) {
      const value = valueAt(found.row.curve, Math.round(found.at));
      words = `${found.row.label}: ${isNaN(value) ? '-' : found.row.curve.words(Math.round(value))} at ${text(Math.round(found.at))}`;
    } else if (found.row && found.row.label) words = found.row.label;
    tip.textContent = words;
    tip.style.display = words ? 'block' : 'none';
    tip.style.left = Math.min(event.clientX + 12, innerWidth - 340) + 'px';
    tip.style.top = event.clientY + 14 + 'px';
  });
  box.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
  box.addEventListener('mousedown', event => {
    const [px, py] = local(event);
    if (event.button === 0 && px >= left && px <= right) hover = {brush: px, at: px, y: py};
  });
  addEventListener('mouseup', event => {
    if (!hover || !hover.brush) return;
    const {brush, y} = hover, [px] = local(event);
    hover = null;
    if (Math.abs(px - brush) > 4) {
      const times = y < TOP ? [brush, px].map(at => whole.from + (at - left) / (right - left) * (whole.to - whole.from)) : [brush, px].map(timeAt);
      show(Math.min(...times), Math.max(...times));
      return;
    }
    if (event.shiftKey) {
      set(timeAt(px));
      return;
    }
    const found = under(px, y);
    if (found.piece !== undefined) select(t.task[found.piece], indexOf(t.jobs[t.task[found.piece]], t.job[found.piece]));
    else if (found.job !== undefined) select(found.row.task, found.job);
    else draw();
  });
  box.addEventListener('wheel', event => {
    const [px] = local(event);
    if (event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      if (event.ctrlKey) return;
      event.preventDefault();
      const by = (event.deltaX || event.deltaY) / (right - left) * (view.to - view.from);
      show(view.from + by, view.to + by);
    } else if (px >= left) {
      event.preventDefault();
      zoom(1.0015 ** event.deltaY, timeAt(px));
    }
  }, {passive: false});
  box.addEventListener('scroll', () => { draw(); clearTimeout(scrolled); scrolled = setTimeout(fragment, 200); });
  addEventListener('resize', resize);
  addEventListener('hashchange', follow);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  sorting.addEventListener('change', () => { sort = sorting.value; layout = rows(); row = -1; tasks(); resize(); fragment(); });
  search.addEventListener('keydown', event => {
    if (event.key === 'Enter') { find(search.value.trim()); box.focus(); }
    event.stopPropagation();
  });
  function neighbour(by) {
    const r = layout.list[row];
    if (!r || r.kind !== 'task') return;
    const j = t.jobs[r.task], count = j.number.length;
    if (!count) return;
    const index = selected && selected.task === r.task ? Math.min(count - 1, Math.max(0, selected.index + by)) : Math.min(count - 1, lower(j.release, view.from));
    select(r.task, index, true);
    said.textContent = jobText(t, r.task, index);
    if (j.release[index] < view.from || j.over[index] > view.to) {
      const span = Math.max(view.to - view.from, (j.over[index] - j.release[index]) * 1.2);
      show((j.release[index] + j.over[index] - span) / 2, (j.release[index] + j.over[index] + span) / 2);
    } else { draw(); fragment(); }
  }
  function choose(by) {
    for (let next = row + by; next >= 0 && next < layout.list.length; next += by) {
      if (layout.list[next].kind !== 'task') continue;
      reveal(layout.list[next].task);
      said.textContent = layout.list[next].label;
      break;
    }
    draw();
  }
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.altKey || event.metaKey || ['INPUT', 'SELECT', 'BUTTON'].includes(event.target.tagName)) return;
    const span = view.to - view.from, middle = (view.from + view.to) / 2;
    const act = {w: () => zoom(.7, middle), s: () => zoom(1 / .7, middle), a: () => show(view.from - span / 5, view.to - span / 5), d: () => show(view.from + span / 5, view.to + span / 5),
      0: () => show(whole.from, whole.to), Home: () => show(whole.from, whole.to), n: () => step('miss', 1), p: () => step('miss', -1), e: () => step('preemption', 1), r: () => step('preemption', -1),
      x: () => step('difference', 1), y: () => step('difference', -1), ArrowDown: () => choose(1), ArrowUp: () => choose(-1), ArrowLeft: () => neighbour(-1), ArrowRight: () => neighbour(1),
      ',': () => point(-.01), '.': () => point(.01), '<': () => point(-.1), '>': () => point(.1), m: () => { if (cursor === null) point(0); set(cursor); },
      '/': () => search.focus(), Escape: () => { mark = cursor = null; select(0, -1); }}[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  resize();
  const firstPicture = performance.now(), drawn = firstPicture - begun;
  tasks();
  if (location.hash && !location.hash.startsWith('#selftest')) follow();
  list();
  document.body.dataset.ready = drawn.toFixed(1);
  if (location.hash.startsWith('#selftest')) selfTest();
  if (location.hash === '#bench') bench();

  /** Shows parts of the trace, from all of it to a thousandth, and says on the console how long that took. */
  function bench() {
    const first = firstPicture, all = whole.to - whole.from;
    const times = [];
    for (let i = 0; i < 120; i++) {
      const length = all / 10 ** (i % 10 / 3), from = whole.from + (all - length) * ((i * 37) % 120) / 120, began = performance.now();
      show(from, from + length, true);
      // A read pixel waits for the picture.
      g.getImageData(0, 0, 1, 1);
      times.push(performance.now() - began);
    }
    clearTimeout(waiting);
    times.sort((a, b) => a - b);
    console.log('takt bench ' + JSON.stringify({pieces: t.n, first_ms: first, median_ms: times[times.length >> 1], longest_ms: times.at(-1)}));
  }

  // --- the test of the page ----------------------------------------------------------------------------------------------

  /** Drives the page by events, and writes what it shows. */
  function selfTest() {
    const result = {errors, pieces: t.n, end: t.end, checks: {}, ready_ms: Number(document.body.dataset.ready)};
    try {
      const check = (what, holds) => { result.checks[what] = Boolean(holds); };
      const key = key => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
      const mouse = (kind, px, py, more = {}) => { const at = canvas.getBoundingClientRect(); box.dispatchEvent(new MouseEvent(kind, {clientX: at.left + px, clientY: at.top + py, bubbles: true, cancelable: true, ...more})); };
      box.focus();
      // Counts of the columns, by the rules of summaries.
      result.tasks = t.about.tasks.map((task, index) => {
        const j = t.jobs[index], of = test => Array.from(j.how).filter(test).length, own = Array.from(j.pieces);
        const exited = how => (how & 7) === 5 && !(how & MISSED);
        let last = null, migrations = 0;
        for (const p of own) {
          const run = `${t.job[p]} ${t.how[p] & 8}`;
          if (last && last.run === run && last.place !== t.place[p]) migrations++;
          last = {run, place: t.place[p]};
        }
        return {name: task.name, released: of(how => !exited(how)), completed: of(how => [1, 2].includes(how & 7)), missed: of(how => how & MISSED),
          met: of(how => [1, 2].includes(how & 7) && !(how & MISSED)), aborted: of(how => (how & 7) === 4), dispatches: own.length,
          preemptions: own.filter(p => (t.how[p] & 7) === 1).length, migrations, ran: t.lanes[index].ran.at(-1)};
      });
      result.cpus = t.cpus.map(lane => [lane.cpu, lane.ran.at(-1)]);
      // All marks of the whole trace, and of its first eighth.
      result.listed = Array.from(document.querySelectorAll('#jobs tr')).slice(1).map(line => line.cells[0].textContent);
      result.views = [whole.to, Math.ceil(whole.to / 8)].map(to => {
        const tasks = t.about.tasks.map(() => ({}));
        let now = null;
        recorder = (sign, at, words) => ((now ? tasks[now.task] : tasks[0])[sign] ||= []).push(words === undefined ? at : [at, words]);
        const rowOf = taskRow;
        Object.assign(view, {from: 0, to});
        for (const r of layout.list) { now = r; if (r.kind === 'task') rowOf(r, TOP + r.y); }
        now = null;
        switches(0, 0);
        signs.clear();
        recorder = (sign, at) => void at;
        draw();
        recorder = null;
        return {to, tasks, dated: t.about.tasks.map((_, task) => Boolean(hasSigns(task))), legend: Array.from(legend.children, entry => entry.lastChild.textContent)};
      });
      Object.assign(view, whole);
      draw();
      result.jobs = t.jobs.flatMap(j => Array.from(j.number, (number, i) => jobText(t, j.task, i))).slice(0, 500);
      // A hovered piece of each task: the page zooms to it first.
      result.hovers = [];
      for (const r of layout.list.filter(r => r.kind === 'task' && r.lane.list.length).slice(0, 20)) {
        const p = r.lane.list[Math.floor(r.lane.list.length / 2)], width = Math.max(t.stop[p] - t.start[p], 10);
        reveal(r.task);
        show(t.start[p] - width, t.stop[p] + width);
        mouse('mousemove', x((t.start[p] + t.stop[p]) / 2), TOP + r.y - box.scrollTop + TASK_ROW - 12);
        result.hovers.push(tip.textContent);
      }
      show(whole.from, whole.to);
      const span = () => view.to - view.from, before = span();
      canvas.dispatchEvent(new WheelEvent('wheel', {clientX: canvas.getBoundingClientRect().left + (left + right) / 2, clientY: TOP + 5, deltaY: -300, bubbles: true, cancelable: true}));
      check('the wheel zooms', span() < before * .7);
      const zoomed = span();
      key('w');
      check('w zooms in', Math.abs(span() - zoomed * .7) < 2);
      key('s');
      check('s zooms out', Math.abs(span() - zoomed) < 2);
      const from = view.from;
      key('d');
      check('d moves', view.from > from);
      key('a');
      check('a moves back', Math.abs(view.from - from) < 2);
      key('0');
      check('0 shows the whole trace', span() === whole.to - whole.from);
      const quarter = Math.round(left + (right - left) / 4), half = Math.round((left + right) / 2), expected = [timeAt(quarter), timeAt(half)];
      mouse('mousedown', quarter, TOP + 20, {button: 0});
      mouse('mousemove', half, TOP + 20);
      mouse('mouseup', half, TOP + 20);
      check('a brush chooses a range', Math.abs(view.from - expected[0]) < 2 && Math.abs(view.to - expected[1]) < 2);
      check('the fragment has the range', location.hash.includes(`from=${Math.round(view.from)}&to=${Math.round(view.to)}`));
      // A link leads to the same picture.
      const link = location.hash, range = {...view};
      show(whole.from, whole.to);
      history.replaceState(null, '', link);
      follow();
      check('a fragment restores the range', Math.abs(view.from - range.from) < 2 && Math.abs(view.to - range.to) < 2);
      // Each miss in turn, by the keyboard.
      result.misses = [];
      for (let count = Math.min(misses().length, 40); count > 0; count--) {
        key('n');
        const {task, index} = selected || {};
        const j = t.jobs[task];
        result.misses.push({said: said.textContent, job: document.getElementById('job').textContent,
          why: Array.from(document.querySelectorAll('#why tr')).slice(1, -1).map(line => [line.cells[0].textContent, line.cells[1].textContent]),
          shown: view.from <= j.release[index] && view.to >= j.over[index]});
      }
      key('0');
      // The search finds the last job of each task.
      result.found = [];
      for (const j of t.jobs.filter(j => j.number.length).slice(0, 20)) {
        search.focus();
        search.value = `${name(t, j.task)}#${j.number.at(-1)}`;
        key('Enter');
        result.found.push(document.getElementById('job').textContent);
      }
      box.focus();
      key('0');
      row = -1;
      key('ArrowDown');
      key('ArrowRight');
      check('arrows choose a task and a job', selected || t.jobs[layout.list[row].task].number.length === 0);
      check('a click shows a job', (() => {
        const r = layout.list.find(r => r.kind === 'task' && r.lane.list.length);
        if (!r) return true;
        const p = r.lane.list[0], width = Math.max(t.stop[p] - t.start[p], 10);
        reveal(r.task);
        show(t.start[p] - width, t.stop[p] + width);
        select(0, -1);
        const px = x((t.start[p] + t.stop[p]) / 2), py = TOP + r.y - box.scrollTop + TASK_ROW - 12;
        mouse('mousedown', px, py, {button: 0});
        mouse('mouseup', px, py, {button: 0});
        return selected && selected.task === t.task[p] && t.jobs[selected.task].number[selected.index] === t.job[p];
      })());
      mouse('mousedown', Math.round(left) + 10, TOP + 2, {button: 0});
      mouse('mouseup', Math.round(left) + 10, TOP + 2, {button: 0, shiftKey: true});
      mouse('mousedown', Math.round(left) + 110, TOP + 2, {button: 0});
      mouse('mouseup', Math.round(left) + 110, TOP + 2, {button: 0, shiftKey: true});
      check('two clicks measure a span', said.textContent === 'span ' + text(Math.round(timeAt(Math.round(left) + 110) - timeAt(Math.round(left) + 10))));
      // The same by the keyboard, and by a link.
      key('Escape');
      key('m');
      key('>');
      key('m');
      const [begin, end] = mark || [];
      check('keys measure a span', said.textContent === 'span ' + text(Math.round(Math.abs(end - begin))) && Math.abs(end - begin - (view.to - view.from) / 10) < 2);
      theme();
      const colour = document.documentElement.dataset.theme, here = location.hash;
      key('Escape');
      theme();
      history.replaceState(null, '', here);
      follow();
      check('a fragment restores the span and the colours', mark && mark[0] === Math.round(begin) && mark[1] === Math.round(end) && document.documentElement.dataset.theme === colour);
      key('Escape');
      delete document.documentElement.dataset.theme;
      sorting.value = 'misses';
      sorting.dispatchEvent(new Event('change'));
      const order = layout.list.filter(r => r.kind === 'task').map(r => t.jobs[r.task].missed.length);
      check('tasks are sorted by misses', order.every((count, i) => i === 0 || order[i - 1] >= count));
      sorting.value = 'file';
      sorting.dispatchEvent(new Event('change'));
      // Lanes on demand, by their buttons, and their values.
      for (const made of onDemand.values()) made.click();
      check('the address has the lanes', onDemand.size === 0 || location.hash.includes('lanes=' + [...onDemand.keys()].join(',')));
      const sampled = ({times, values}) => {
        const jump = Math.max(1, Math.floor(times.length / 40));
        return times.flatMap((at, k) => k % jump === 0 && !(times[k + 1] === at) && !isNaN(values[k]) ? [[at, values[k]]] : []);
      };
      result.lanes = layout.list.filter(r => r.kind === 'curve').map(r => [r.label, sampled(r.curve)]);
      check('the pointer shows a value of each lane', layout.list.filter(r => r.kind === 'curve').every(r => {
        box.scrollTop = Math.max(0, r.y - 20);
        mouse('mousemove', Math.round((left + right) / 2), TOP + r.y - box.scrollTop + 12);
        return tip.textContent.startsWith(r.label + ': ');
      }));
      const shared = location.hash;
      for (const made of onDemand.values()) made.click();
      check('lanes are hidden again', !layout.list.some(r => r.kind === 'curve'));
      history.replaceState(null, '', shared);
      follow();
      check('a fragment restores the lanes', lanes.size === onDemand.size);
      lanes.clear();
      pressed();
      // Work that continues a job after it was cut off is hatched in red.
      result.overdue = t.overdue.flatMap((spans, task) => spans.map(({from, to}) => [task, from, to]));
      const reader = element('canvas', {width: 20, height: 1}).getContext('2d', {willReadFrequently: true});
      check('late work of window tables is hatched', t.overdue.every((spans, task) => spans.slice(0, 3).every(span => {
        const p = t.jobs[task].pieces.find(p => !(t.how[p] & 8) && Math.min(t.stop[p], span.to) > Math.max(t.start[p], span.from));
        if (p === undefined) return true;
        const from = Math.max(t.start[p], span.from), to = Math.min(t.stop[p], span.to);
        reveal(task);
        show(from - (to - from), to + (to - from));
        const r = layout.list[row], scale = devicePixelRatio || 1;
        reader.drawImage(canvas, Math.round((x(from) + 3) * scale), Math.round((TOP + r.y - box.scrollTop + TASK_ROW - 10) * scale), 20, 1, 0, 0, 20, 1);
        const found = reader.getImageData(0, 0, 20, 1).data;
        const [red, green, blue] = [1, 3, 5].map(at => parseInt(colours.red.slice(at, at + 2), 16));
        return found.some((value, at) => at % 4 === 0 && Math.abs(value - red) < 40 && Math.abs(found[at + 1] - green) < 40 && Math.abs(found[at + 2] - blue) < 40);
      })));
      // A column of a CPU's lane in which something runs is not drawn as idle.
      key('0');
      Object.assign(view, whole);
      box.scrollTop = 0;
      draw();
      const ratio = devicePixelRatio || 1;
      let idle = 0;
      const pixels = g.getImageData(0, 0, canvas.width, canvas.height), empty = colours.idle;
      for (const r of layout.list.filter(r => r.kind === 'cpu' && TOP + r.y + CPU_ROW < parseFloat(canvas.style.height))) {
        const y = TOP + r.y + 3;
        const [red, green, blue] = [1, 3, 5].map(at => parseInt(empty.slice(at, at + 2), 16) || 0);
        for (let px = Math.ceil(left) + 1; px < right - 1; px += 7) {
          const [begin, end] = [timeAt(px), timeAt(px + 1)];
          const runs = r.lane.list.some(p => t.start[p] <= begin && t.stop[p] >= end || t.start[p] > begin && t.stop[p] < end && t.start[p] < t.stop[p]);
          if (!runs) continue;
          const at = (Math.round((y + CPU_ROW - 9) * ratio) * canvas.width + Math.floor((px + .5) * ratio)) * 4;
          if (pixels.data[at] === red && pixels.data[at + 1] === green && pixels.data[at + 2] === blue) idle++;
        }
      }
      check('no busy CPU is drawn as idle', idle === 0);
      result.idle = idle;
      result.verdict = verdict.textContent;
      result.counts = Array.from(document.querySelectorAll('#counts tr')).map(line => Array.from(line.cells).map(cell => cell.textContent));
      if (other) {
        result.differences = [];
        for (let count = Math.min(events.difference().length, 20); count > 0; count--) { key('x'); result.differences.push(said.textContent); }
      }
      frames = [];
      for (let i = 0; i < 20; i++) { const at = whole.to * i / 40; show(at, at + (whole.to - whole.from) / (1 + i), true); }
      frames.sort((a, b) => a - b);
      result.frame_ms = {median: frames[frames.length >> 1], most: frames.at(-1)};
      show(whole.from, whole.to);
    } catch (error) {
      errors.push(String(error.stack || error));
    }
    document.body.append(element('pre', {id: 'selftest', textContent: JSON.stringify(result)}));
  }
}
main().catch(error => {
  errors.push(String(error.stack || error));
  document.getElementById('app').append(element('p', {className: 'error', textContent: 'The page cannot show the trace: ' + error}));
  if (location.hash.startsWith('#selftest')) document.body.append(element('pre', {id: 'selftest', textContent: JSON.stringify({errors})}));
});
