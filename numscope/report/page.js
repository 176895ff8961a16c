"use strict";
// All text comes from the data and goes into the page as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set();
let isLog = false;
const plots = [];

function add(parent, tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

function section(title) {
  const element = add(document.body, "section");
  add(element, "h2", title);
  return element;
}

const unitOf = (chart) => {
  if (chart.x_name !== "tokens") return [1, ""];
  const most = Math.max(0, ...data.charts.map((each) => each.x.at(-1) ?? 0));
  return [[1e9, "B"], [1e6, "M"], [1e3, "K"]].find(([size]) => most >= size) ?? [1, ""];
};
const xLabel = (chart) => {
  const symbol = unitOf(chart)[1];
  return symbol ? `${chart.x_name} (${symbol})` : chart.x_name;
};
const xs = (chart) => chart.x.map((x) => x / unitOf(chart)[0]);
const isCosine = (chart) => chart.worse < 0;

// On a log axis a cosine is drawn as what is missing to 1, and nothing has no place.
function shownValues(chart, values) {
  if (!isLog) return values;
  const drawn = isCosine(chart) ? values.map((y) => (y === null ? null : 1 - y)) : values;
  return drawn.map((y) => (y === null || y <= 0 ? null : y));
}

function traces(chart) {
  return chart.layers.map((layer, j) => ({
    x: xs(chart),
    y: shownValues(chart, chart.values[j]),
    customdata: chart.values[j].map((y, i) => [chart.x[i].toLocaleString("en"), y]),
    name: String(layer),
    mode: chart.x.length > 60 ? "lines" : "lines+markers",
    visible: hidden.has(layer) ? false : true,
    line: { color: data.colours[layer], width: 1.6 },
    marker: { size: 4 },
    hovertemplate: `layer ${layer}<br>${chart.x_name} %{customdata[0]}<br>%{customdata[1]}<extra></extra>`,
  }));
}

function layout(chart) {
  const label = isLog && isCosine(chart) ? `1 − ${chart.label}` : chart.label;
  const axis = { zeroline: false, linecolor: "#444", ticks: "outside", gridcolor: "#eee" };
  return {
    margin: { l: 72, r: 12, t: 30, b: 44 },
    showlegend: false,
    hovermode: "closest",
    paper_bgcolor: "white",
    plot_bgcolor: "white",
    xaxis: {
      ...axis, showspikes: true, spikemode: "across", spikethickness: 1, spikecolor: "#c1121f", title: { text: xLabel(chart) }, showgrid: false,
      exponentformat: "none",
    },
    yaxis: { ...axis, title: { text: label }, type: isLog ? "log" : "linear", exponentformat: "e" },
    shapes: [],
  };
}

const options = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] };

// A click or a zoom in one chart is seen at the same tokens in all charts of the recipe.
function link(plot) {
  const others = () => plots.filter((each) => each !== plot && each.chart.recipe === plot.chart.recipe);
  plot.div.on("plotly_hover", ({ points: [point] }) => {
    for (const other of others()) {
      const curve = other.chart.layers.indexOf(plot.chart.layers[point.curveNumber]);
      const place = other.chart.x.indexOf(plot.chart.x[point.pointNumber]);
      if (curve >= 0 && place >= 0 && other.div.data[curve].visible === true) {
        Plotly.Fx.hover(other.div, [{ curveNumber: curve, pointNumber: place }]);
      }
    }
  });
  plot.div.on("plotly_unhover", () => others().forEach((other) => Plotly.Fx.unhover(other.div)));
  plot.div.on("plotly_relayout", (change) => {
    const range = change["xaxis.range[0]"] === undefined
      ? null : [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (!range && !change["xaxis.autorange"]) return;
    for (const other of others()) {
      const now = other.div.layout.xaxis;
      if (range && now.range[0] === range[0] && now.range[1] === range[1]) continue;
      if (!range && now.autorange) continue;
      Plotly.relayout(other.div, range ? { "xaxis.range": range } : { "xaxis.autorange": true });
    }
  });
}

const mark = (x) => ({
  type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line: { color: "#c1121f", width: 1, dash: "dot" },
});

function redraw() {
  for (const { div, chart } of plots) Plotly.react(div, traces(chart), layout(chart), options);
}

function toggle(layer, button) {
  if (!hidden.delete(layer)) hidden.add(layer);
  button.setAttribute("aria-pressed", String(!hidden.has(layer)));
  redraw();
}

function controls() {
  const bar = add(document.body, "div", null, { class: "bar" });
  const layers = Object.keys(data.colours).map(Number).sort((a, b) => a - b);
  const scale = add(bar, "button", "log axes", { id: "log", "aria-pressed": "false" });
  scale.onclick = () => {
    isLog = !isLog;
    scale.setAttribute("aria-pressed", String(isLog));
    redraw();
  };
  const buttons = layers.map((layer) => {
    const button = add(bar, "button", layer, { class: "layer", "aria-pressed": "true", "data-layer": layer });
    button.style.setProperty("--shade", data.colours[layer]);
    button.onclick = () => toggle(layer, button);
    return button;
  });
  for (const [words, isHidden] of [["all layers", false], ["no layers", true]]) {
    add(bar, "button", words).onclick = () => {
      hidden.clear();
      if (isHidden) layers.forEach((layer) => hidden.add(layer));
      buttons.forEach((button) => button.setAttribute("aria-pressed", String(!isHidden)));
      redraw();
    };
  }
}

// To the chart that a finding speaks of, with a line where it is.
function show(finding) {
  document.querySelectorAll(".chart.shown").forEach((each) => each.classList.remove("shown"));
  const plot = plots.find(({ chart }) => chart.recipe === finding.recipe && chart.title === finding.chart);
  if (!plot) return;
  const box = plot.div.parentElement;
  box.classList.add("shown");
  box.scrollIntoView({ block: "center" });
  const x = finding.tokens ?? finding.step;
  Plotly.relayout(plot.div, { shapes: x === null ? [] : [mark(x / unitOf(plot.chart)[0])] });
}

function capital(sentence) {
  return sentence.replace(/^./, (c) => c.toUpperCase());
}

function findingButton(parent, finding, number, words) {
  const button = add(add(parent, "li"), "button", null, { class: "finding" });
  add(button, "b", `${number}. `);
  button.append(words);
  button.onclick = () => show(finding);
}

function pictures() {
  if (!data.pictures.length) return;
  const element = section("Recipes side by side");
  for (const { of, src } of data.pictures) {
    add(element, "img", null, { src, alt: `${of}: losses by layer, and by bits per value` });
  }
}

function findings() {
  const list = add(section("What stands out"), "ul", null, { class: "notes", id: "findings" });
  const isOfSeveral = new Set(data.charts.map((chart) => chart.recipe)).size > 1;
  data.findings.forEach((finding, i) => {
    const words = finding.chart ? finding.sentence : capital(finding.sentence);
    findingButton(list, finding, i + 1, isOfSeveral ? `${finding.recipe}: ${finding.sentence}` : words);
  });
}

function byRecipe(draw) {
  for (const recipe of new Set(data.charts.map((chart) => chart.recipe))) {
    draw(recipe, data.charts.filter((chart) => chart.recipe === recipe));
  }
}

// A row per metric, a column per subject.
function grid(parent, charts) {
  const metrics = [...new Set(charts.map((chart) => chart.metric))];
  const element = add(parent, "div", null, { class: "grid" });
  element.style.setProperty("--columns", charts.filter((chart) => chart.metric === metrics[0]).length);
  return [element, metrics.flatMap((metric) => charts.filter((chart) => chart.metric === metric))];
}

function drawCharts(recipe, charts) {
  const [element, ordered] = grid(section(`Charts, ${recipe}`), charts);
  for (const chart of ordered) {
    const box = add(element, "div", null, { class: "chart" });
    add(box, "h3", chart.title);
    const div = add(box, "div", null, { class: "plot" });
    const list = add(box, "ul", null, { class: "notes" });
    data.findings.forEach((finding, i) => {
      if (finding.recipe === recipe && finding.chart === chart.title) findingButton(list, finding, i + 1, capital(finding.sentence));
    });
    const plot = { div, chart };
    plots.push(plot);
    Plotly.newPlot(div, traces(chart), layout(chart), options).then(() => link(plot));
  }
}

function drawHeatmaps(recipe, charts) {
  const [element, ordered] = grid(section(`Heatmaps, ${recipe}`), charts);
  for (const chart of ordered) {
    const box = add(element, "div", null, { class: "heatmap" });
    add(box, "h3", chart.title);
    const div = add(box, "div", null, { class: "plot" });
    const trace = {
      type: "heatmap", x: xs(chart), y: chart.layers.map(String), z: chart.values,
      colorscale: "Cividis", reversescale: chart.worse > 0, hoverongaps: false,
      colorbar: { thickness: 10, exponentformat: "e" },
      hovertemplate: `layer %{y}<br>${chart.x_name} %{x}<br>%{z}<extra></extra>`,
    };
    const look = layout(chart);
    look.yaxis = { type: "category", title: { text: "layer" }, nticks: 13 };
    look.xaxis.showgrid = false;
    Plotly.newPlot(div, [trace], look, options);
  }
}

function sortable(parent, columns, rows) {
  const table = add(parent, "table", null, { id: "layers" });
  const head = add(add(table, "thead"), "tr");
  const body = add(table, "tbody");
  let sortedBy = null;
  const fill = () => {
    body.replaceChildren();
    for (const row of rows) {
      const line = add(body, "tr");
      for (const [name, , text] of columns) {
        const isNumber = typeof row[name] === "number";
        add(line, "td", row[text ?? name], isNumber ? { class: "number" } : {});
      }
    }
  };
  for (const [name, words] of columns) {
    add(add(head, "th"), "button", words).onclick = () => {
      const sign = sortedBy === name ? -1 : 1;
      sortedBy = sign > 0 ? name : null;
      rows.sort((a, b) => sign * (a[name] < b[name] ? -1 : a[name] > b[name] ? 1 : 0));
      fill();
    };
  }
  fill();
}

function list(parent, pairs) {
  const element = add(parent, "dl");
  for (const [name, value] of pairs) {
    add(element, "dt", name);
    add(element, "dd", typeof value === "string" ? value : JSON.stringify(value));
  }
}

add(document.body, "h1", data.title);
findings();
pictures();
controls();
byRecipe(drawCharts);
byRecipe(drawHeatmaps);
sortable(section("Layers"), [
  ["recipe", "recipe"], ["chart", "chart"], ["layer", "layer"], ["points", "points"],
  ["median", "median"], ["worst", "worst"], ["at", "at", "at_text"],
], data.layers);
list(section("Recipes"), Object.entries(data.run.recipes ?? {}));
list(section("Words"), Object.entries(data.definitions));
add(section("Where this comes from"), "pre", JSON.stringify(data.run, null, 2));
document.body.dataset.ready = "yes";
