/**
 * Draws one dashboard with Grafana's own field pipeline and components, and reports what it drew.
 *
 * Grafana's: units, thresholds, value mappings, overrides, colours, transformations, data links of cells, PanelChrome, BigValue,
 * TableNG, TimeSeries, Markdown. Ours, and so not proved by a picture: filling in variables, the queries and the naming of their frames,
 * and the layout. Annotations are not drawn.
 */
import React from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';

// By require: by import esbuild hands a dependency's module object over where its default export is meant, and tables die.
const data = require('@grafana/data');
const ui = require('@grafana/ui');
const { TableNG } = require('@grafana/ui/unstable');

type Loose = any; // Grafana's shapes: the dashboard is JSON, and what it may hold is what these components take

const CELL_WIDTH = 76, CELL_HEIGHT = 38, GAP = 8, TOP = 56;
const theme = data.createTheme({ colors: { mode: location.search === '?light' ? 'light' : 'dark' } });

const transformers = new Map(Object.values(data.standardTransformers).map((it: Loose) => [it.id, it]));
data.standardTransformersRegistry.setInit(() => [...transformers.values()].map((it: Loose) => ({
  id: it.id, name: it.name, aliasIds: [], transformation: () => Promise.resolve(it), editor: () => null,
})));

const PROPERTIES = ['unit', 'min', 'max', 'decimals', 'displayName', 'color', 'thresholds', 'mappings', 'noValue', 'links'];
const CUSTOM = ['width', 'minWidth', 'align', 'cellOptions', 'wrapText', 'inspect', 'filterable', 'lineStyle', 'lineWidth', 'fillOpacity', 'axisPlacement', 'axisSoftMax', 'hideFrom'];
const property = (path: string, isCustom: boolean) => ({
  id: isCustom ? `custom.${path}` : path, path, name: path, isCustom, override: () => null, editor: () => null,
  process: data.identityOverrideProcessor, shouldApply: () => true, settings: {}, getItemsCount: () => 0,
});
const registry = new data.FieldConfigOptionsRegistry(() => [
  ...PROPERTIES.map((path) => property(path, false)), ...CUSTOM.map((path) => property(path, true)),
]);

interface Config { prometheus: string; from: number; to: number; step: number; variables: Record<string, string> }
interface Drawn { id: number; title: string; type: string; empty: boolean; problem?: string; texts: string[]; colours: string[] }

/** Variables of the dashboard, of Grafana itself, and `${__data.fields.…}` of the row that a link stands in. */
function filled(text: string, config: Config, scoped?: Loose): string {
  const seconds = Math.round(config.to - config.from);
  const known: Record<string, string> = {
    __range: `${seconds}s`, __rate_interval: '120s', __interval: `${config.step}s`,
    __url_time_range: `from=${Math.round(config.from * 1000)}&to=${Math.round(config.to * 1000)}`, ...config.variables,
  };
  const context = scoped?.__dataContext?.value;
  return text
    .replace(/\$\{__data\.fields\.(\w+)(?::raw)?\}/g, (all, name) => {
      const value = context && data.getFieldDisplayValuesProxy({ frame: context.frame, rowIndex: context.rowIndex })[name];
      return value === undefined ? all : String(value); // the text that the cell shows, as Grafana gives it to a link
    })
    .replace(/\$\{(\w+):queryparam\}/g, (all, name) => (name in known ? `var-${name}=${encodeURIComponent(known[name])}` : all))
    .replace(/\$\{(\w+)(?::\w+)?\}|\$(\w+)/g, (all, braced, bare) => known[braced ?? bare] ?? all);
}

async function asked(target: Loose, targets: number, config: Config): Promise<Loose[]> {
  const expression = encodeURIComponent(filled(target.expr, config));
  const times = target.instant ? `time=${config.to}` : `start=${config.from}&end=${config.to}&step=${config.step}`;
  const answer = await (await fetch(`${config.prometheus}/api/v1/${target.instant ? 'query' : 'query_range'}?query=${expression}&${times}`)).json();
  if (answer.status !== 'success') { throw new Error(answer.error); }
  const series = answer.data.result;
  if (target.format === 'table') { return [tableFrame(series, target.refId, targets)]; }
  return series.map((it: Loose) => {
    const points = it.values ?? [it.value];
    const legend = target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_: string, name: string) => it.metric[name] ?? '').trim();
    const label = target.legendFormat === '__auto' ? JSON.stringify(it.metric) : legend;
    return data.toDataFrame({ refId: target.refId, fields: [
      { name: 'Time', type: data.FieldType.time, values: points.map((point: Loose) => point[0] * 1000) },
      { name: 'Value', type: data.FieldType.number, labels: it.metric, config: { displayNameFromDS: label }, values: points.map((point: Loose) => Number(point[1])) },
    ] });
  });
}

function tableFrame(series: Loose[], refId: string, targets: number): Loose {
  const names = [...new Set(series.flatMap((it) => Object.keys(it.metric)))] as string[];
  return data.toDataFrame({ refId, fields: series.length === 0 ? [] : [
    { name: 'Time', type: data.FieldType.time, values: series.map((it) => it.value[0] * 1000) },
    ...names.map((name) => ({ name, type: data.FieldType.string, config: { filterable: true }, values: series.map((it) => it.metric[name] ?? '') })),
    { name: targets > 1 ? `Value #${refId}` : 'Value', type: data.FieldType.number, values: series.map((it) => Number(it.value[1])) },
  ] });
}

/** The frames of a panel as its visualisation gets them. */
async function framesOf(panel: Loose, config: Config): Promise<Loose[]> {
  const targets = panel.targets ?? [];
  let frames = (await Promise.all(targets.map((it: Loose) => asked(it, targets.length, config)))).flat().filter((it) => it.fields.length > 0);
  if (panel.transformations?.length && frames.length > 0) { frames = await lastValueFrom(data.transformDataFrame(panel.transformations, frames)); }
  frames.flatMap((frame) => frame.fields.filter((it: Loose) => it.type === data.FieldType.number))
    .forEach((field: Loose, index: number) => { field.state = { ...field.state, seriesIndex: index }; });
  const overridden = data.applyFieldOverrides({
    data: frames, fieldConfig: panel.fieldConfig, theme, timeZone: 'utc', fieldConfigRegistry: registry,
    replaceVariables: (text: string, scoped?: Loose) => filled(text, config, scoped),
  });
  data.cacheFieldDisplayNames(overridden); // as Grafana does before a panel draws
  return overridden;
}

interface Size { width: number; height: number }

function stats(panel: Loose, frames: Loose[], drawn: Drawn, config: Config): (size: Size) => React.ReactNode {
  const values = data.getFieldDisplayValues({
    fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, theme, data: frames, timeZone: 'utc',
    replaceVariables: (text: string, scoped?: Loose) => filled(text, config, scoped),
  });
  for (const { display } of values) { drawn.texts.push(data.formattedValueToString(display)); drawn.colours.push(display.color); }
  return ({ width, height }) => <ui.VizRepeater source={values} width={width} height={height} orientation={panel.options.orientation}
    getValues={() => values} renderCounter={0} autoGrid={true} itemSpacing={3}
    renderValue={({ value, width, height, count }: Loose) => <ui.BigValue theme={theme} width={width} height={height} colorMode={panel.options.colorMode}
      graphMode={panel.options.graphMode} justifyMode={panel.options.justifyMode} textMode={panel.options.textMode} wideLayout={panel.options.wideLayout}
      count={count} value={value.display} />} />;
}

function table(panel: Loose, frames: Loose[], drawn: Drawn): (size: Size) => React.ReactNode {
  const [frame] = frames;
  for (const field of frame.fields) {
    for (let row = 0; row < frame.length; row++) {
      const shown = field.display(field.values[row]);
      drawn.texts.push(data.formattedValueToString(shown));
      if (field.config.custom?.cellOptions?.type === 'color-background') { drawn.colours.push(shown.color); }
      for (const link of field.getLinks?.({ valueRowIndex: row }) ?? []) { drawn.texts.push(link.href); }
    }
  }
  return ({ width, height }) => <TableNG data={frame} width={width} height={height} sortBy={panel.options.sortBy} cellHeight={panel.options.cellHeight}
    noHeader={false} structureRev={1} fieldConfig={panel.fieldConfig} timeRange={undefined} getActions={() => []} />;
}

function graph(panel: Loose, frames: Loose[], config: Config, drawn: Drawn): (size: Size) => React.ReactNode {
  for (const field of frames.flatMap((frame) => frame.fields)) { field.config.custom = { ...panel.fieldConfig.defaults.custom, ...field.config.custom }; }
  for (const field of frames.flatMap((frame) => frame.fields.filter((it: Loose) => it.type === data.FieldType.number))) {
    drawn.colours.push(data.getFieldSeriesColor(field, theme).color);
  }
  const range = { from: data.dateTime(config.from * 1000), to: data.dateTime(config.to * 1000), raw: { from: 'now-1h', to: 'now' } };
  return ({ width, height }) => <ui.TimeSeries width={width} height={height} frames={frames} timeRange={range} timeZone="utc" legend={panel.options.legend}
    options={{ tooltip: panel.options.tooltip }} />;
}

const words = (text: string) => () => <div style={{ padding: 12, whiteSpace: 'pre-wrap', overflow: 'hidden' }}>{text}</div>;

function markdown(text: string, drawn: Drawn): () => React.ReactNode {
  const html = data.renderTextPanelMarkdown(text);
  drawn.texts.push(new DOMParser().parseFromString(html, 'text/html').body.textContent ?? '');
  return () => <div className="markdown-html" style={{ overflow: 'auto', height: '100%' }} dangerouslySetInnerHTML={{ __html: html }} />;
}

async function bodyOf(panel: Loose, config: Config, drawn: Drawn): Promise<(size: Size) => React.ReactNode> {
  if (panel.type === 'text') { return markdown(filled(panel.options.content, config), drawn); }
  const frames = await framesOf(panel, config);
  drawn.empty = !frames.some((frame) => frame.length > 0);
  if (panel.type === 'stat') { return stats(panel, frames, drawn, config); }
  if (drawn.empty) { drawn.texts.push(panel.fieldConfig.defaults.noValue); return words(panel.fieldConfig.defaults.noValue); }
  if (panel.type === 'table') { return table(panel, frames, drawn); }
  if (panel.type === 'timeseries') { return graph(panel, frames, config, drawn); }
  throw new Error(`a panel of type ${panel.type} is not drawn here`);
}

class Guard extends React.Component<{ drawn: Drawn; children: React.ReactNode }, { failed: boolean }> {
  state = { failed: false };
  static getDerivedStateFromError() { return { failed: true }; }
  componentDidCatch(error: Error) { this.props.drawn.problem = error.message; }
  render() { return this.state.failed ? <pre>{this.props.drawn.problem}</pre> : this.props.children; }
}

async function panelOf(panel: Loose, config: Config, report: Drawn[]): Promise<React.ReactNode> {
  const { x, y, w, h } = panel.gridPos;
  const place = { position: 'absolute' as const, left: x * CELL_WIDTH + GAP, top: TOP + y * CELL_HEIGHT };
  if (panel.type === 'row') { return <h4 key={panel.id} style={place}>{panel.title}</h4>; }
  const width = w * CELL_WIDTH - GAP, height = h * CELL_HEIGHT - GAP;
  const drawn: Drawn = { id: panel.id, title: panel.title, type: panel.type, empty: false, texts: [], colours: [] };
  report.push(drawn);
  let body: (size: Size) => React.ReactNode;
  try { body = await bodyOf(panel, config, drawn); } catch (error: Loose) { drawn.problem = error.message; body = words(error.stack); }
  return <div key={panel.id} data-panel={panel.id} style={place}>
    <ui.PanelChrome title={filled(panel.title, config)} description={panel.description} width={width} height={height}>
      {(innerWidth: number, innerHeight: number) => <Guard drawn={drawn}>{body({ width: innerWidth, height: innerHeight })}</Guard>}
    </ui.PanelChrome>
  </div>;
}

/** Whether the page holds what the panel should show: lines are on a canvas, rows are cells, all else is text. */
function isSeen({ id, type, empty, texts }: Drawn): boolean {
  const element = document.querySelector(`[data-panel="${id}"]`)!;
  if (!empty && type === 'timeseries') { return element.querySelector('canvas') !== null; }
  if (!empty && type === 'table') { return element.querySelector('[role="gridcell"]') !== null; }
  const bare = (text: string) => text.replace(/\s/g, '');
  return texts.every((text) => bare(element.textContent ?? '').includes(bare(text)));
}

const uncaught: string[] = [];
window.addEventListener('error', ({ message }) => { if (!message.startsWith('ResizeObserver')) { uncaught.push(message); } });
window.addEventListener('unhandledrejection', ({ reason }) => uncaught.push(String(reason)));

async function draw(): Promise<Drawn[]> {
  const [dashboard, config] = await Promise.all(['dashboard.json', 'config.json'].map(async (it) => (await fetch(it)).json()));
  const report: Drawn[] = [];
  const panels = await Promise.all(dashboard.panels.map((it: Loose) => panelOf(it, config, report)));
  const chosen = dashboard.templating.list.filter((it: Loose) => it.type === 'query')
    .map((it: Loose) => `${it.label}: ${/^\.[*+]$/.test(config.variables[it.name]) ? 'All' : config.variables[it.name]}`).join('   ');
  const root = createRoot(document.getElementById('root')!);
  flushSync(() => root.render(<data.ThemeContext.Provider value={theme}><ui.GlobalStyles />
    <div style={{ background: theme.colors.background.canvas, minHeight: '100vh', minWidth: '100vw' }}>
      <h3 style={{ position: 'absolute', left: GAP, top: 12 }}>{dashboard.title}<small style={{ marginLeft: 24 }}>{chosen}</small></h3>
      {panels}
    </div></data.ThemeContext.Provider>));
  await new Promise((resolve) => setTimeout(resolve, 1500)); // tables and graphs measure themselves, and draw again
  for (const drawn of report) { if (!isSeen(drawn)) { drawn.problem ??= 'not seen'; } }
  return report;
}

const told = (what: Loose) => fetch('report', { method: 'POST', body: JSON.stringify(what) });
draw().then((panels) => told({ panels, uncaught }), (error) => told({ failed: error.stack }));
