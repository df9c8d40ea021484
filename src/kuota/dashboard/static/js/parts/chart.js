// SPDX-License-Identifier: Apache-2.0
// A chart over time. The library is loaded by the first chart. A table on the page has the same numbers for screen readers.

import { BASE } from "../api.js";
import { Component, createRef, html } from "../dom.js";
import { rounded } from "../format.js";

let library;

/** @returns {Promise<any>} uPlot, which is a classic script */
function uPlot() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${BASE}/static/vendor/uplot/uPlot.iife.min.js`;
    script.onload = () => resolve(window.uPlot);
    script.onerror = () => reject(new Error("the chart library cannot be loaded"));
    document.head.append(script);
  });
  return library;
}

/** Colors of the theme, resolved: a canvas knows no variables. @param {string} name */
function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const DAY_S = 86_400;
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Labels of the axis of time: hours, and the day where it changes. */
function ticks(_, splits, __, ___, step) {
  let day = "";
  return splits.map((each) => {
    const at = new Date(each * 1000);
    const words = DAY.format(at);
    const changed = words !== day;
    day = words;
    if (step >= DAY_S) return words;
    return changed ? `${CLOCK.format(at)}\n${words}` : CLOCK.format(at);
  });
}

/** The step that the legend shows the values of. @param {number} from @param {number} to in seconds */
function stepWords(from, to) {
  const [begin, end] = [new Date(from * 1000), new Date(to * 1000)];
  const day = DAY.format(end) === DAY.format(begin) ? "" : `${DAY.format(end)}, `;
  return `${DAY.format(begin)}, ${CLOCK.format(begin)} – ${day}${CLOCK.format(end)}`;
}

/** Properties: `label`, `times` of the beginnings of steps and `until` the end of the last one, in seconds, `height`, and `series` with label, color (a name of the theme), values, `dash`, `fill`. */
export class Chart extends Component {
  constructor() {
    super();
    this.box = createRef();
    this.redraw = () => this.draw();
    this.dark = matchMedia("(prefers-color-scheme: dark)");
  }

  componentDidMount() {
    this.observer = new ResizeObserver(() => this.plot?.setSize({ width: this.box.current.clientWidth, height: this.props.height }));
    this.observer.observe(this.box.current);
    addEventListener("kuota:theme", this.redraw);
    this.dark.addEventListener("change", this.redraw);
    this.draw();
  }

  componentDidUpdate({ times, series }) {
    if (JSON.stringify([times, series]) !== JSON.stringify([this.props.times, this.props.series])) this.draw();
  }

  componentWillUnmount() {
    this.observer.disconnect();
    removeEventListener("kuota:theme", this.redraw);
    this.dark.removeEventListener("change", this.redraw);
    this.plot?.destroy();
    this.gone = true;
  }

  async draw() {
    const Plot = await uPlot();
    if (this.gone) return;
    this.plot?.destroy();
    const { times, series } = this.props;
    this.plot = new Plot(this.options(Plot), [times, ...series.map((each) => each.values)], this.box.current);
  }

  options(Plot) {
    const { series, height } = this.props;
    const axis = { stroke: color("muted"), font: "12px system-ui, sans-serif", grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
    return {
      width: this.box.current.clientWidth,
      height,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      hooks: { setCursor: [(plot) => this.setState({ at: plot.cursor.idx ?? undefined })] },
      scales: { y: { range: (_, __, top) => [0, Math.max(top * 1.08, 1)] } },
      axes: [{ ...axis, space: 64, size: 40, values: ticks }, { ...axis, size: 40, values: (_, found) => found.map(rounded) }],
      series: [{}, ...series.map((each) => line(each, Plot))],
    };
  }

  render({ label, times, until, series, height }, { at }) {
    const index = at ?? times.length - 1;
    const value = (each) => (each.values[index] == null ? "–" : rounded(each.values[index]));
    return html`<figure class="chart">
      <div ref=${this.box} role="img" aria-label=${label} style=${{ height: `${height}px` }}></div>
      <ul class="legend" aria-hidden="true">
        ${series.map((each) => html`<li><svg viewBox="0 0 22 10"><line x1="1" x2="21" y1="5" y2="5" stroke-width="2.5"
          stroke-dasharray=${each.dash?.join(" ")} style=${{ stroke: `var(--${each.color})` }} /></svg>${each.label} <strong>${value(each)}</strong></li>`)}
        <li class="when">${stepWords(times[index], times[index + 1] ?? until)}</li>
      </ul>
    </figure>`;
  }
}

function line(each, Plot) {
  const stroke = color(each.color);
  return {
    label: each.label, stroke, width: 1.75, dash: each.dash, points: { show: false },
    fill: each.fill ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.14)") : undefined,
    paths: Plot.paths.stepped({ align: 1 }),
  };
}
