'use strict';
// Draws the curves of this page with uPlot, which has the axes, the cursor and the zoom. Points and values are millionths in the data.
const MARKERS = 7, MARKERS_MOST = 40, DASH = 6, DASHES_MOST = 24;
const errors = [];
addEventListener('error', event => errors.push(String(event.message)));

const data = JSON.parse(document.getElementById('curves').textContent);
const points = data.points.map(point => point / 1e6);
const shown = data.names.map(() => true);
const plots = [];
let strong = -1, active = null;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
const variable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** Black is the colour of texts, which is light on dark. */
const colourOf = line => {
  const colour = data.colours[line % data.colours.length];
  return colour === '#000000' ? variable('--text') : colour;
};
const dashOf = line => {
  const dash = data.dashes[line % data.dashes.length];
  return dash === 'none' ? [] : dash.split(' ').map(Number);
};
const table = panel => document.querySelectorAll('.values table')[panel];
/** The text of a value in the table below. */
const textOf = (panel, line, at) => table(panel).rows[at + 1].cells[line + 1].textContent;

// --- drawing: as in the picture for browsers without JavaScript ---------------------------------------------------

/** The outline of a line's marker. */
function marker(ctx, line, x, y, size) {
  const less = size * 7 / 8, more = size * 5 / 4;
  const polygon = corners => { corners.forEach(([right, down], at) => ctx[at ? 'lineTo' : 'moveTo'](x + right, y + down)); ctx.closePath(); };
  ctx.beginPath();
  switch (line % MARKERS) {
    case 0: ctx.arc(x, y, size, 0, 2 * Math.PI); break;
    case 1: polygon([[-less, -less], [less, -less], [less, less], [-less, less]]); break;
    case 2: polygon([[0, -more], [more, size], [-more, size]]); break;
    case 3: polygon([[0, -more], [more, 0], [0, more], [-more, 0]]); break;
    case 4: polygon([[0, more], [more, -size], [-more, -size]]); break;
    case 5: polygon([[-more, 0], [more, 0]]); polygon([[0, -more], [0, more]]); break;
    default: polygon([[-size, -size], [size, size]]); polygon([[-size, size], [size, -size]]);
  }
  ctx.fill();
  ctx.stroke();
}
function draw(plot, panel) {
  const {ctx, bbox} = plot, scale = uPlot.pxRatio, {lines} = data.panels[panel], room = 6 * scale;
  const visible = lines.map((_, line) => line).filter(line => shown[line]);
  const x = at => plot.valToPos(points[at], 'x', true), y = value => plot.valToPos(value / 1e6, 'y', true);
  const value = (line, at) => lines[line].values[at] ?? null;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - room, bbox.top - room, bbox.width + 2 * room, bbox.height + 2 * room);
  ctx.clip();
  const barred = visible.filter(line => lines[line].values.some((value, at) => value !== null && lines[line].below[at] + lines[line].above[at] > 0));
  for (const line of visible) {
    // Lines that are the same between two points take turns there, and their markers are of different sizes.
    const alike = same => [visible.filter(other => other < line && same(other)).length, visible.filter(same).length];
    const isDrawn = at => at >= 0 && at + 1 < points.length && value(line, at) !== null && value(line, at + 1) !== null;
    const turn = at => alike(other => [at, at + 1].every(at => value(other, at) === value(line, at)));
    ctx.strokeStyle = ctx.fillStyle = colourOf(line);
    ctx.globalAlpha = strong < 0 || strong === line ? 1 : 0.25;
    ctx.lineWidth = (strong === line ? 2.6 : 1.6) * scale;
    for (let at = 0; at < points.length;) {
      if (!isDrawn(at)) { at++; continue; }
      const [before, count] = turn(at);
      ctx.beginPath();
      ctx.moveTo(x(at), y(value(line, at)));
      do {
        at++;
        ctx.lineTo(x(at), y(value(line, at)));
      } while (isDrawn(at) && String(turn(at)) === String([before, count]));
      const dash = Math.min(DASH, Math.max(2, Math.floor(DASHES_MOST / count)));
      ctx.setLineDash((count === 1 ? dashOf(line) : [dash, dash * (count - 1)]).map(length => length * scale));
      ctx.lineDashOffset = count === 1 ? 0 : -dash * before * scale;
      ctx.stroke();
    }
    ctx.setLineDash([]);
    ctx.lineWidth = scale;
    const every = Math.ceil(points.length / MARKERS_MOST);
    for (let at = 0; at < points.length; at++) {
      if (value(line, at) === null || (at % every && (isDrawn(at) || isDrawn(at - 1)))) continue;
      const [before, count] = alike(other => value(other, at) === value(line, at));
      marker(ctx, line, x(at), y(value(line, at)), (2.5 + Math.min(1.5, 6 / count) * (count - 1 - before)) * scale);
    }
    // Bars of several lines at one point stand side by side.
    const turnOfBar = barred.indexOf(line);
    if (turnOfBar < 0) continue;
    const aside = (2 * turnOfBar - (barred.length - 1)) * scale, {below, above} = lines[line];
    ctx.beginPath();
    for (let at = 0; at < points.length; at++) {
      if (value(line, at) === null || below[at] + above[at] === 0) continue;
      const middle = x(at) + aside;
      const [low, high] = [value(line, at) - below[at], value(line, at) + above[at]].map(y);
      ctx.moveTo(middle, low);
      ctx.lineTo(middle, high);
      for (const end of [low, high]) {
        ctx.moveTo(middle - 3 * scale, end);
        ctx.lineTo(middle + 3 * scale, end);
      }
    }
    ctx.stroke();
  }
  ctx.restore();
}
/** A piece of a line with its marker. */
function key(line) {
  const scale = devicePixelRatio || 1, made = element('canvas', {width: 36 * scale, height: 14 * scale});
  made.style.width = '36px';
  made.style.height = '14px';
  const ctx = made.getContext('2d');
  ctx.scale(scale, scale);
  ctx.strokeStyle = ctx.fillStyle = colourOf(line);
  ctx.lineWidth = 1.6;
  ctx.setLineDash(dashOf(line));
  ctx.beginPath();
  ctx.moveTo(0, 7);
  ctx.lineTo(36, 7);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.lineWidth = 1;
  marker(ctx, line, 18, 7, 3);
  return made;
}

// --- the page --------------------------------------------------------------------------------------------------------

const app = document.getElementById('app');
const bar = element('div', {id: 'bar'}), legend = element('div', {id: 'legend'}), holder = element('div', {id: 'panels'});
const tip = element('div', {id: 'tip'});
tip.setAttribute('role', 'status');
const first = points[0], last = points[points.length - 1];
const margin = (last - first) * 0.02 || 0.5;
const whole = {min: first - margin, max: last + margin};

function redraw() { for (const plot of plots) plot.redraw(false, true); }
/** The view in the address, so that a link shows the same. */
function remember() {
  const hidden = shown.flatMap((visible, line) => visible ? [] : [line]), {min, max} = plots[0].scales.x, parts = [];
  if (hidden.length) parts.push('hide=' + hidden.join(','));
  if (min !== whole.min || max !== whole.max) parts.push(`from=${min}`, `to=${max}`);
  history.replaceState(null, '', '#' + parts.join('&'));
}
function follow() {
  const view = new URLSearchParams(location.hash.slice(1)), hidden = (view.get('hide') ?? '').split(',');
  shown.forEach((_, line) => { shown[line] = !hidden.includes(String(line)); });
  const from = Number(view.get('from') ?? whole.min), to = Number(view.get('to') ?? whole.max);
  pressed();
  zoom(from < to ? {min: from, max: to} : whole, false);
}
/** The same points in all panels. */
function zoom({min, max}, kept = true) {
  for (const plot of plots) plot.setScale('x', {min, max});
  if (kept) remember();
}
function wholeRange() {
  plots.forEach((plot, panel) => plot.setScale('y', {min: 0, max: data.panels[panel].top / 1e6 || 1}));
  zoom(whole);
}
function pressed() {
  [...legend.children].forEach((made, line) => made.setAttribute('aria-pressed', String(shown[line])));
  redraw();
}
function toggle(line, alone) {
  if (alone) {
    const isAlone = shown.every((visible, other) => visible === (other === line));
    shown.forEach((_, other) => { shown[other] = isAlone || other === line; });
  } else shown[line] = !shown[line];
  pressed();
  remember();
}
function theme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  keys();
  redraw();
}
function keys() {
  legend.replaceChildren(...data.names.map((name, line) => {
    const made = element('button', {type: 'button', title: 'hide or show; with Shift: this curve alone'}, key(line), name);
    const emphasise = which => () => { strong = which; redraw(); };
    made.onclick = event => toggle(line, event.shiftKey);
    made.onmouseenter = made.onfocus = emphasise(line);
    made.onmouseleave = made.onblur = emphasise(-1);
    return made;
  }));
  pressed();
}
/** Shows the values at the point of the cursor. */
function hover(plot, panel) {
  const {idx: at, left, top} = plot.cursor;
  if (active !== panel || at === null || at === undefined || left < 0) {
    if (active === panel) tip.style.display = 'none';
    return;
  }
  plots.forEach((other, number) => { if (number !== panel) other.setCursor({left: other.valToPos(points[at], 'x'), top: -10}, false); });
  const {lines, title} = data.panels[panel], place = plot.posToVal(top, 'y') * 1e6;
  const visible = lines.map((_, line) => line).filter(line => shown[line]);
  const distance = line => lines[line].values[at] === null ? Infinity : Math.abs(lines[line].values[at] - place);
  const near = visible.reduce((best, line) => best === null || distance(line) < distance(best) ? line : best, null);
  const rows = visible.map(line => element('tr', {className: line === near && top >= 0 ? 'near' : ''},
    element('td', {}, key(line)), element('td', {textContent: data.names[line]}), element('td', {textContent: textOf(panel, line, at)})));
  const point = table(panel).rows[at + 1].cells[0].textContent;
  tip.replaceChildren(element('div', {textContent: `${title ? title + ', ' : ''}${data.across}: ${point}`}), element('table', {}, element('tbody', {}, ...rows)));
  tip.style.display = 'block';
  const box = plot.over.getBoundingClientRect(), x = box.left + left, y = box.top + Math.max(top, 0);
  const {width, height} = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(0, x + 16 + width > innerWidth ? x - 16 - width : x + 16)}px`;
  tip.style.top = `${Math.max(0, Math.min(y + 16, innerHeight - height - 4))}px`;
}
/** Moves the cursor with the keyboard, zooms, and leaves. */
function keyboard(event, plot, panel) {
  const {key: name} = event, {min, max} = plot.scales.x, at = plot.cursor.idx ?? -1;
  const go = to => {
    active = panel;
    const bounded = Math.min(points.length - 1, Math.max(0, to));
    plot.setCursor({left: plot.valToPos(points[bounded], 'x'), top: -1});
    hover(plot, panel);
  };
  const scaled = factor => {
    const middle = at >= 0 ? points[at] : (min + max) / 2;
    zoom({min: Math.max(whole.min, middle - (middle - min) * factor), max: Math.min(whole.max, middle + (max - middle) * factor)});
  };
  const actions = {
    ArrowRight: () => go(at + 1), ArrowLeft: () => go(at < 0 ? points.length - 1 : at - 1), Home: () => go(0), End: () => go(points.length - 1),
    '+': () => scaled(0.7), '-': () => scaled(1 / 0.7), 0: wholeRange, Escape: () => { tip.style.display = 'none'; active = null; },
  };
  if (!actions[name] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  actions[name]();
}
function sizeOf() {
  const count = data.panels.length, room = document.documentElement.clientWidth - 24;
  const columns = Math.max(1, Math.min(count, 3, Math.floor(room / 380)));
  const width = Math.min(count === 1 ? 1000 : 700, Math.floor((room - 16 * (columns - 1)) / columns));
  return {width, height: count === 1 ? 440 : 320};
}
function plotted(panel) {
  const {title, unit, top, lines} = data.panels[panel];
  const outer = element('section', {className: 'curves', tabIndex: 0});
  outer.setAttribute('aria-label', `${title || document.title}: arrow keys show the values, which are also in the table below`);
  if (title) outer.append(element('h2', {textContent: title}));
  holder.append(outer);
  const text = () => variable('--text'), grid = {stroke: () => variable('--line'), width: 1};
  const axis = more => ({stroke: text, grid, ticks: grid, font: '11px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif', labelSize: 18, ...more});
  const plain = (_, splits) => splits.map(value => value === null ? '' : String(Number(value.toPrecision(12))));
  const steps = [1, 10, 100, 1000].flatMap(power => [1, 2, 5].map(n => n * power));
  const inRange = (_, min, max) => [min, max];
  const series = lines.map((_, line) => ({label: data.names[line], paths: () => null, points: {show: false}}));
  const plot = new uPlot({
    ...sizeOf(),
    legend: {show: false},
    cursor: {
      points: {show: false}, drag: {x: true, y: true, uni: 24},
      bind: {dblclick: () => () => { wholeRange(); return null; }},
    },
    scales: {x: {time: false, auto: false, ...whole, range: inRange}, y: {auto: false, min: 0, max: top / 1e6 || 1, range: inRange}},
    axes: [axis({label: data.across, values: plain, size: 30, ...(data.whole ? {incrs: steps} : {})}), axis({label: unit, values: plain, size: 56})],
    series: [{}, ...series],
    hooks: {
      draw: [plot => draw(plot, panel)],
      setCursor: [plot => hover(plot, panel)],
      setSelect: [plot => { if (plot.select.width > 0) setTimeout(() => zoom(plot.scales.x)); }],
    },
  }, [points, ...lines.map(({values}) => values.map(value => value === null ? null : value / 1e6))], outer);
  plot.over.addEventListener('mouseenter', () => { active = panel; });
  plot.over.addEventListener('mouseleave', () => { tip.style.display = 'none'; active = null; });
  outer.addEventListener('keydown', event => keyboard(event, plot, panel));
  outer.addEventListener('blur', () => { tip.style.display = 'none'; });
  return plot;
}
function start() {
  const button = (text, act) => { const made = element('button', {type: 'button', textContent: text}); made.onclick = act; return made; };
  const all = visible => () => { shown.fill(visible); pressed(); remember(); };
  bar.append(button('all curves', all(true)), button('no curve', all(false)), button('whole range', wholeRange), button('light or dark', theme),
    element('span', {textContent: 'drag: zoom; double click: whole range; arrow keys: values'}));
  app.append(bar, legend, holder, tip);
  data.panels.forEach((_, panel) => plots.push(plotted(panel)));
  keys();
  addEventListener('resize', () => plots.forEach(plot => plot.setSize(sizeOf())));
  addEventListener('hashchange', follow);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { keys(); redraw(); });
  if (location.hash.length > 1 && location.hash !== '#selftest') follow();
}
if (points.length) start();

// --- the page's own test, which uses it by events --------------------------------------------------------------------

const settled = () => new Promise(done => setTimeout(done, 50));
async function selfTest() {
  const checks = {}, hovers = [];
  const mouse = (plot, type, x, y, target = plot.over) => {
    const box = plot.over.getBoundingClientRect();
    target.dispatchEvent(new MouseEvent(type, {bubbles: true, button: 0, movementX: 1, clientX: box.left + x, clientY: box.top + y}));
  };
  const move = (plot, at) => {
    mouse(plot, 'mouseenter', 0, 0);
    mouse(plot, 'mousemove', plot.valToPos(points[at], 'x'), 20);
  };
  const rows = () => [...tip.querySelectorAll('tr')].map(row => [row.cells[1].textContent, row.cells[2].textContent]);
  const pixels = () => plots.map(plot => plot.ctx.canvas.toDataURL());
  await settled();
  for (const plot of plots) {
    const ofPanel = [];
    for (let at = 0; at < points.length; at++) {
      move(plot, at);
      await settled();
      ofPanel.push(rows());
    }
    hovers.push(ofPanel);
    mouse(plot, 'mouseleave', 0, 0);
  }
  checks['the tip leaves with the pointer'] = tip.style.display === 'none';
  const before = pixels(), [button] = legend.children;
  button.click();
  await settled();
  const hidden = pixels();
  move(plots[0], 0);
  await settled();
  checks['a hidden curve changes all panels that draw it'] = plots.every((_, panel) => data.panels[panel].lines[0].values.every(value => value === null) || before[panel] !== hidden[panel]);
  checks['a hidden curve has no value in the tip'] = rows().length === data.names.length - 1 && button.getAttribute('aria-pressed') === 'false';
  checks['the address has the view'] = location.hash === '#hide=0';
  mouse(plots[0], 'mouseleave', 0, 0);
  button.click();
  await settled();
  checks['a curve returns'] = String(pixels()) === String(before) && button.getAttribute('aria-pressed') === 'true';
  button.dispatchEvent(new MouseEvent('click', {shiftKey: true}));
  await settled();
  checks['a curve is shown alone'] = shown.filter(visible => visible).length === 1 && shown[0];
  bar.children[0].click();
  const {width, height} = plots[0].over.getBoundingClientRect();
  const dragged = [[0.2, 0.3], [0.7, 0.8]].map(([x, y]) => [x * width, y * height]);
  mouse(plots[0], 'mouseenter', ...dragged[0]);
  mouse(plots[0], 'mousemove', ...dragged[0]);
  mouse(plots[0], 'mousedown', ...dragged[0]);
  mouse(plots[0], 'mousemove', ...dragged[1]);
  mouse(plots[0], 'mouseup', ...dragged[1], document);
  await settled();
  const near = (a, b) => Math.abs(a - b) < (whole.max - whole.min) * 0.01;
  const from = whole.min + (whole.max - whole.min) * 0.2, to = whole.min + (whole.max - whole.min) * 0.7;
  checks['a drag zooms all panels'] = plots.every(({scales: {x}}) => near(x.min, from) && near(x.max, to)) && plots[0].scales.y.max < data.panels[0].top / 1e6;
  mouse(plots[0], 'dblclick', 10, 10);
  await settled();
  checks['a double click shows the whole range'] = plots.every(({scales: {x, y}}, panel) => x.min === whole.min && x.max === whole.max && y.max === (data.panels[panel].top / 1e6 || 1));
  mouse(plots[0], 'mouseleave', 0, 0);
  const outer = document.querySelector('.curves'), press = key => outer.dispatchEvent(new KeyboardEvent('keydown', {key}));
  press('End');
  await settled();
  const keyed = rows();
  press('Home');
  await settled();
  checks['the keyboard shows the same values'] = String(keyed) === String(hovers[0][points.length - 1]) && String(rows()) === String(hovers[0][0]);
  press('Escape');
  history.replaceState(null, '', `#hide=0&from=${points[0]}&to=${whole.max}`);
  dispatchEvent(new HashChangeEvent('hashchange'));
  await settled();
  checks['an address shows its view'] = !shown[0] && plots.every(({scales: {x}}) => x.min === points[0]);
  const light = variable('--back');
  bar.children[3].click();
  await settled();
  checks['light and dark differ'] = variable('--back') !== light;
  document.body.append(element('pre', {id: 'selftest', textContent: JSON.stringify({errors, checks, hovers, names: data.names})}));
}
if (location.hash === '#selftest') selfTest().catch(error => {
  errors.push(String(error.stack));
  document.body.append(element('pre', {id: 'selftest', textContent: JSON.stringify({errors})}));
});
